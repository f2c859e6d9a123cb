"""Sessions on Redis: what was said in them, and which there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import AmbiguousId, InvalidRequest, UnknownJob
from shared.messages import Message
from shared.stores import keys
from shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisSessionStore", "Said", "SessionView"]

MAX_MESSAGES = 400
"""How much of a session an agent is told, newest kept."""


@dataclass(frozen=True)
class Said:
    """A message of a session: which job it belongs to, and which agent wrote it (empty: the user)."""

    job: str
    agent: str
    message: Message


@dataclass(frozen=True)
class SessionView:
    """A session as people see it. Times are the server's, in ms since the epoch."""

    id: str
    title: str
    entry: str
    """The agent that its first request named; empty: routed."""
    user: str
    created_ms: int
    used_ms: int
    jobs: int
    active: str | None
    """The job that runs, if one does."""
    waiting: int


class RedisSessionStore:
    """Reads, clears and deletes sessions; jobs write to them when they end."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def said(self, session: str, *, before_job: str | None = None, limit: int = MAX_MESSAGES) -> list[Said]:
        """Return the session's messages, oldest first, without those of ``before_job`` itself."""
        rows = await as_any(self._redis.xrevrange(keys.messages(session), count=limit))
        found = [_said(fields) for _, fields in reversed(rows)]
        return [one for one in found if one.job != before_job]

    @translated
    async def session(self, session: str) -> SessionView:
        """Return a session; raises ``UnknownJob``."""
        fields = await as_any(self._redis.hgetall(keys.session(session)))
        if not fields:
            raise UnknownJob(f"there is no session {session!r} (any more): `ekiden sessions list` names them")
        return _view(session, fields, await as_any(self._redis.llen(keys.inbox(session))))

    @translated
    async def sessions(
        self, limit: int = 20, *, user: str | None = None, entry: str | None = None
    ) -> list[SessionView]:
        """Return the sessions last used, newest first, of one user and entry agent or of all."""
        found: list[SessionView] = []
        start = 0
        while len(found) < limit and (ids := await as_any(self._redis.zrevrange(keys.SESSIONS, start, start + 99))):
            start += len(ids)
            pipeline = self._redis.pipeline(transaction=False)
            for one in ids:
                pipeline.hgetall(keys.session(one))
                pipeline.llen(keys.inbox(one))
            answers = await pipeline.execute()
            views = [_view(one, answers[2 * i], answers[2 * i + 1]) for i, one in enumerate(ids) if answers[2 * i]]
            found += [view for view in views if user in (None, view.user) and entry in (None, view.entry)]
        return found[:limit]

    @translated
    async def resolve(self, prefix: str) -> str:
        """Return the one session whose id begins so; raises ``UnknownJob`` or ``AmbiguousId``."""
        if prefix and await as_any(self._redis.exists(keys.session(prefix))):
            return prefix
        low, high = f"[{prefix}", f"[{prefix}\xff"
        jobs = await as_any(self._redis.zrangebylex(keys.JOB_IDS, low, high, 0, 200)) if prefix else []
        found = sorted({job.partition(".")[0] for job in jobs})
        if not found:
            raise UnknownJob(f"no session id begins with {prefix!r}: `ekiden sessions list` names them")
        if len(found) > 1:
            raise AmbiguousId(f"several session ids begin with {prefix!r}, such as {found[0]} and {found[1]}")
        return str(found[0])

    @translated
    async def clear(self, session: str) -> int:
        """Forget what was said in a session; its jobs stay. Returns how many messages there were."""
        view = await self.session(session)
        if view.active is not None:
            raise InvalidRequest(f"job {view.active!r} of session {session!r} still runs: wait for it, or cancel it")
        count = await as_any(self._redis.xlen(keys.messages(session)))
        await as_any(self._redis.delete(keys.messages(session)))
        return int(count)


def _said(fields: Mapping[str, str]) -> Said:
    message = Message.model_validate_json(fields["m"])
    return Said(fields["job"], (message.model or "") if message.role == "model" else "", message)


def _view(session: str, fields: Mapping[str, str], waiting: int) -> SessionView:
    return SessionView(
        id=session,
        title=fields.get("title", ""),
        entry=fields.get("entry", ""),
        user=fields.get("user", ""),
        created_ms=int(fields.get("created_ms", 0)),
        used_ms=int(fields.get("used_ms", 0)),
        jobs=int(fields.get("jobs", 0)),
        active=fields.get("active"),
        waiting=waiting,
    )
