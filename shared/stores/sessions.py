"""Sessions on Redis: what was said in them, and which there are."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ekiden.shared.errors import AmbiguousId, InvalidRequest, UnknownJob
from ekiden.shared.messages import Message
from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["MAX_MESSAGES", "Forgotten", "RedisSessionStore", "SessionMessage", "SessionView"]

MAX_MESSAGES = 400
"""How much of a session an agent is told, newest kept."""


@dataclass(frozen=True)
class SessionMessage:
    """A message of a session: which job it belongs to, and which agent wrote it (empty: the user)."""

    job: str
    agent: str
    message: Message
    at_ms: int = 0
    """When its job ended: the server's time in ms since the epoch."""
    to: str = ""
    """The agent that the user named for the job; empty: it was routed."""
    agents: tuple[str, ...] = ()
    """Who had control in the job."""


class Forgotten(NamedTuple):
    """How much was there before a session was cleared."""

    messages: int
    variables: int


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
    policy: SessionPolicy = "route"
    """Who gets the next message."""
    first_agent: str = ""
    """Who got the first message; empty: nobody yet."""


class RedisSessionStore:
    """Reads and changes sessions; jobs write to them when they end."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def messages(
        self, session: str, *, before_job: str | None = None, limit: int | None = MAX_MESSAGES
    ) -> list[SessionMessage]:
        """Return the session's newest messages (None: all), oldest first, without those of ``before_job`` itself."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xrevrange(keys.older_messages(session), count=limit)
        pipeline.zrevrange(keys.messages(session), 0, -1 if limit is None else limit - 1)
        older, newer = await pipeline.execute()
        found = [_older(row, fields) for row, fields in reversed(older)] + [_said(text) for text in reversed(newer)]
        return [one for one in found[-limit if limit else None :] if one.job != before_job]

    @translated
    async def state(self, session: str) -> dict[str, Any]:
        """Return the session's variables."""
        fields = await as_any(self._redis.hgetall(keys.state(session)))
        return {name: json.loads(fields[name]) for name in sorted(fields)}

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
        """Return the one session whose id begins so; a job's id names its session.

        Raises ``UnknownJob`` or ``AmbiguousId``.
        """
        prefix = prefix.partition(".")[0]
        if prefix and await as_any(self._redis.exists(keys.session(prefix))):
            return prefix
        first = await self._first_session(f"[{prefix}", prefix) if prefix else None
        if first is None:
            raise UnknownJob(f"no session id begins with {prefix!r}: `ekiden sessions list` names them")
        if (second := await self._first_session(f"({first}.\xff", prefix)) is not None:
            raise AmbiguousId(f"several session ids begin with {prefix!r}, such as {first} and {second}")
        return first

    @translated
    async def set_policy(self, session: str, policy: SessionPolicy) -> None:
        """Let another rule say who gets the next message. Raises ``UnknownJob``."""
        await self.session(session)
        await as_any(self._redis.hset(keys.session(session), "policy", policy))

    @translated
    async def restore(
        self, session: SessionView, said: Sequence[SessionMessage], state: Mapping[str, Any], *, is_untrusted: bool
    ) -> None:
        """Make a session as it was, on a server that has none of its id: with its jobs counted, and without them.

        ``is_untrusted``: whether its jobs have read text whose author nobody vouches for.
        """
        fields: dict[Any, Any] = {"created_ms": session.created_ms, "used_ms": session.used_ms, "jobs": session.jobs}
        fields |= {"user": session.user, "policy": session.policy, "entry": session.entry, "title": session.title}
        fields |= {"first_agent": session.first_agent} if session.first_agent else {}
        fields |= {"untrusted": 1} if is_untrusted else {}
        rows = {_row(number, one): number for number, one in enumerate(said, 1)}
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(keys.session(session.id), mapping=fields)
        pipeline.zadd(keys.SESSIONS, {session.id: session.used_ms})
        if rows:
            pipeline.zadd(keys.messages(session.id), rows)
        if state:
            written: dict[Any, Any] = {name: json.dumps(value, ensure_ascii=False) for name, value in state.items()}
            pipeline.hset(keys.state(session.id), mapping=written)
        for key in (keys.session(session.id), keys.messages(session.id), keys.state(session.id)):
            pipeline.expire(key, keys.SESSION_TTL_S)
        await pipeline.execute()

    async def _first_session(self, low: str, prefix: str) -> str | None:
        """Return the session of the first job id from ``low`` on, in the order of the alphabet."""
        jobs = await as_any(self._redis.zrangebylex(keys.JOB_IDS, low, f"[{prefix}\xff", 0, 1))
        return str(jobs[0]).partition(".")[0] if jobs else None

    @translated
    async def clear(self, session: str) -> Forgotten:
        """Forget what was said in a session, and its variables; its jobs stay."""
        view = await self.session(session)
        if view.active is not None:
            raise InvalidRequest(f"job {view.active!r} of session {session!r} still runs: wait for it, or cancel it")
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.xlen(keys.older_messages(session))
        pipeline.zcard(keys.messages(session))
        pipeline.hlen(keys.state(session))
        pipeline.delete(keys.older_messages(session), keys.messages(session), keys.state(session))
        pipeline.hdel(keys.session(session), "untrusted")
        older, newer, variables, *_ = await pipeline.execute()
        return Forgotten(older + newer, variables)


def _row(number: int, said: SessionMessage) -> str:
    """Return a message as jobs say it, the reverse of ``_said``; see ``tell`` in the scripts."""
    about = [f"{number} {said.at_ms} {said.job}", said.to, *said.agents]
    return "\n".join([*about, said.message.model_dump_json(exclude_none=True)])


def _said(text: str) -> SessionMessage:
    head, to, *agents, message = text.split("\n")
    _, at_ms, job = head.split(" ")
    return _said_at(int(at_ms), job, message, to, agents)


def _older(row: str, fields: Mapping[str, str]) -> SessionMessage:
    return _said_at(int(row.partition("-")[0]), fields["job"], fields["m"])


def _said_at(at_ms: int, job: str, text: str, to: str = "", agents: Iterable[str] = ()) -> SessionMessage:
    message = Message.model_validate_json(text)
    by = (message.agent or message.model or "") if message.role == "model" else ""  # older ones say it as the model
    return SessionMessage(job, by, message, at_ms, to, tuple(agents))


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
        policy=cast(SessionPolicy, fields.get("policy", "route")),
        first_agent=fields.get("first_agent", ""),
    )
