"""Lessons on Redis: one hash for the whole deployment, which is read as a whole and changed by one script."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from ekiden.shared.errors import Forged, StoreUnavailable
from ekiden.shared.ids import drawn_id, session_of
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.lessons import Lesson
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts
from ekiden.shared.stores.views import TERMINAL

__all__ = ["EndedJob", "Known", "RedisLessonStore"]

_KIND = "lesson"
_VERSION = "version"
_ATTEMPTS = 20
_FIELDS = ("status", "learned", "untrusted", "summary", "entry", "created_ms")

log = LateLogger(__name__)


@dataclass(frozen=True)
class Known:
    """All lessons by id, and what changes whenever one of them does."""

    version: str = ""
    lessons: Mapping[str, Lesson] = field(default_factory=dict)


@dataclass(frozen=True)
class EndedJob:
    """What tells whether a job's journal may teach anything. Times are the server's, in ms since the epoch."""

    id: str
    is_done: bool
    is_looked_at: bool
    is_untrusted: bool
    """Whether it has read text whose author nobody vouches for."""
    summary: str
    """How the request begins."""
    named: str
    """The agent that the request named; empty: it was routed."""
    created_ms: int
    user: str
    """Whose session it belongs to."""


class RedisLessonStore:
    """Keeps lessons; what this deployment has not signed, where it signs, is none."""

    def __init__(self, client: Redis, signing: Signing = OFF) -> None:
        self._redis = client
        self._scripts = Scripts(client)
        self._signing = signing

    @translated
    async def version(self) -> str:
        """Return what changes whenever a lesson does; empty: there are none."""
        return str(await as_any(self._redis.hget(keys.LESSONS, _VERSION)) or "")

    @translated
    async def known(self) -> Known:
        """Return all lessons."""
        fields: dict[str, str] = dict(await as_any(self._redis.hgetall(keys.LESSONS)))
        version = fields.pop(_VERSION, "")
        read = {name: self._read(name, text) for name, text in fields.items()}
        return Known(version, {name: lesson for name, lesson in read.items() if lesson is not None})

    async def change(self, make: Callable[[Mapping[str, Lesson]], Mapping[str, Lesson]]) -> Known:
        """Put what ``make`` makes of the lessons in their place; it is asked again where somebody was quicker.

        What cannot be read is left as it is. Raises ``StoreUnavailable`` where somebody always is.
        """
        for _ in range(_ATTEMPTS):
            known = await self.known()
            wanted = make(known.lessons)
            if wanted == known.lessons:
                return known
            version = drawn_id()
            if await self._put(known, wanted, version):
                return Known(version, wanted)
        raise StoreUnavailable("what was learned changes all the time: try again")

    @translated
    async def _put(self, known: Known, wanted: Mapping[str, Lesson], version: str) -> bool:
        changed = {name: lesson for name, lesson in wanted.items() if known.lessons.get(name) != lesson}
        verdict = await self._scripts.run(
            "teach",
            lessons=keys.LESSONS,
            version=known.version,
            next_version=version,
            gone=sorted(known.lessons.keys() - wanted.keys()),
            written=[text for name, lesson in changed.items() for text in (name, self._written(name, lesson))],
        )
        return verdict[0] == "ok"

    @translated
    async def newest(self, limit: int) -> list[EndedJob]:
        """Return those of the ``limit`` root jobs submitted last that have ended, oldest first."""
        jobs: Sequence[str] = await as_any(self._redis.zrevrange(keys.JOBS, 0, limit - 1))
        pipeline = self._redis.pipeline(transaction=False)
        for job in jobs:
            pipeline.hmget(keys.job(job), _FIELDS)
            pipeline.hget(keys.session(session_of(job)), "user")
        answers = await pipeline.execute() if jobs else []
        found = [_ended(job, *answers[2 * i : 2 * i + 2]) for i, job in enumerate(jobs)]
        return [job for job in reversed(found) if job is not None]

    @translated
    async def note(self, jobs: Sequence[str]) -> None:
        """Note that these jobs have been looked at."""
        if jobs:
            await self._scripts.run("learned", jobs=[keys.job(job) for job in jobs])

    @translated
    async def may_look(self, every_s: float) -> bool:
        """Tell whether it is time that somebody looks, and that nobody else does."""
        return bool(await as_any(self._redis.set(keys.LOOKING, "1", nx=True, px=round(every_s * 1000))))

    def _written(self, name: str, lesson: Lesson) -> str:
        return self._signing.sign(_KIND, (name,), lesson.model_dump_json())

    def _read(self, name: str, text: str) -> Lesson | None:
        try:
            lesson = Lesson.model_validate_json(self._signing.read(_KIND, (name,), text))
        except (Forged, ValidationError) as error:
            problem = str(error) if isinstance(error, Forged) else "it cannot be read: a later version wrote it"
            log.warning("lesson_ignored", lesson=name, error=problem)
            return None
        return lesson if lesson.id == name else None


def _ended(job: str, fields: Sequence[str | None], user: str | None) -> EndedJob | None:
    status, looked_at, untrusted, summary, named, created_ms = fields
    if status not in TERMINAL:
        return None
    return EndedJob(
        id=job,
        is_done=status == "done",
        is_looked_at=looked_at is not None,
        is_untrusted=untrusted is not None,
        summary=summary or "",
        named=named or "",
        created_ms=int(created_ms or 0),
        user=user or "",
    )
