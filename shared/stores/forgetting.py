"""Forgetting a user on Redis: sessions with all that belongs to them, lessons, and the name in what is counted."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.ids import session_of
from ekiden.shared.stores import keys
from ekiden.shared.stores.lessons import RedisLessonStore
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["ForgottenUser", "RedisForgetting"]

_OF_JOBS = (keys.APPROVALS, keys.DEADLINES, keys.JOBS, keys.JOB_IDS, keys.LEASES, keys.SESSIONS, keys.TIMERS)
"""Sorted sets that name jobs, sessions or what belongs to them."""
_ENDED = ("done", "unfinished", "failed", "cancelled", "dead")
_PAGE = 500


class ForgottenUser(NamedTuple):
    """How much there was of a user."""

    sessions: int
    jobs: int
    lessons: int
    notes: int = 0


class RedisForgetting:
    """Takes away what is kept of a user. Looks through all keys of the server: for people, now and then."""

    def __init__(self, client: Redis, lessons: RedisLessonStore) -> None:
        self._redis = client
        self._lessons = lessons
        self._scripts = Scripts(client)

    @translated
    async def forget(self, user: str) -> ForgottenUser:
        """Forget a user's sessions, lessons and name. Raises ``InvalidRequest`` while one of the jobs has not ended."""
        sessions = await self._sessions_of(user)
        found = [await self._keys_of(session) for session in sessions]
        jobs = [key for one in found for key in one if ":job:" in key]
        await self._refuse_unfinished(user, jobs)
        await self._unname(user)
        await self._leave_limits(user, frozenset(sessions))
        for session, own in zip(sessions, found, strict=True):
            await self._drop(session, own)
        known = (await self._lessons.known()).lessons
        gone = {name for name, lesson in known.items() if lesson.user == user}
        if gone:
            await self._lessons.change(lambda lessons: {name: one for name, one in lessons.items() if one.user != user})
        return ForgottenUser(len(sessions), len(jobs), len(gone))

    async def _unname(self, user: str) -> None:
        """Let what models were used for count as of others."""
        async for day in self._redis.scan_iter(keys.usage("*"), count=1_000):
            await self._scripts.run("unname", day=day, user=user)

    async def _leave_limits(self, user: str, sessions: frozenset[str]) -> None:
        """Take the user, and the jobs, off the limits of models that they have waited for."""
        async for key in self._redis.scan_iter(keys.limit("*"), count=1_000, _type="zset"):
            members = await as_any(self._redis.zrange(key, 0, -1))
            own = {user} if key.endswith(":users") else {one for one in members if session_of(one) in sessions}
            if gone := own.intersection(members):
                await as_any(self._redis.zrem(key, *gone))
        async for key in self._redis.scan_iter(keys.limit("*"), count=1_000, _type="hash"):
            if gone := {one for one in await as_any(self._redis.hkeys(key)) if session_of(one) in sessions}:
                await as_any(self._redis.hdel(key, *gone))

    async def _sessions_of(self, user: str) -> list[str]:
        names = await as_any(self._redis.zrange(keys.SESSIONS, 0, -1))
        users = await self._each("hget", [(keys.session(name), "user") for name in names])
        return [name for name, of in zip(names, users, strict=True) if of == user]

    async def _keys_of(self, session: str) -> list[str]:
        pattern = keys.session(session).removesuffix("session") + "*"
        return [key async for key in self._redis.scan_iter(pattern, count=1_000)]

    async def _refuse_unfinished(self, user: str, jobs: list[str]) -> None:
        statuses = await self._each("hget", [(job, "status") for job in jobs])
        going = [job.rpartition(":")[2] for job, status in zip(jobs, statuses, strict=True) if status not in _ENDED]
        if going:
            raise InvalidRequest(
                f"{len(going)} job(s) of {user!r} have not ended, such as {min(going)}: `ekiden job cancel` ends "
                "them, then forget"
            )

    async def _drop(self, session: str, own: list[str]) -> None:
        """Take a session's keys away, and then its names off the indexes."""
        for first in range(0, len(own), _PAGE):
            await as_any(self._redis.delete(*own[first : first + _PAGE]))
        queues = await as_any(self._redis.smembers(keys.QUEUES))
        listed = [*_OF_JOBS, keys.UNVOUCHED, *map(keys.queued, queues), *map(keys.suspended, keys.CAUSES)]
        for index in listed:
            members = await as_any(self._redis.zrange(index, 0, -1))
            if gone := [one for one in members if _is_of(one.rpartition(" ")[2], session)]:
                await as_any(self._redis.zrem(index, *gone))

    async def _each(self, command: str, arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
        found: list[Any] = []
        arguments = list(arguments)
        for first in range(0, len(arguments), _PAGE):
            pipeline = self._redis.pipeline(transaction=False)
            for given in arguments[first : first + _PAGE]:
                getattr(pipeline, command)(*given)
            found += await pipeline.execute()
        return found


def _is_of(name: str, session: str) -> bool:
    return name == session or name.startswith((f"{session}.", f"{session}:"))
