"""Looks at jobs that have ended, each once, and keeps what they teach: journals hold all that is needed for it.

So nothing is to be done at the end of a job, and nothing is lost with a process that ends. To look twice is harmless.
"""

from collections.abc import Sequence

from ekiden.dispatcher.learning.journals import lesson_in
from ekiden.shared.errors import Forged, UnreadableJournal
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.lessons import Lesson, taken_in
from ekiden.shared.records import Entry
from ekiden.shared.stores.journal_signatures import head_of
from ekiden.shared.stores.lessons import EndedJob
from ekiden.shared.stores.opening import Stores

__all__ = ["look"]

MOST_READ = 200
"""Journals that are read in one look."""
_LONGEST = 500
"""Entries of a journal beyond which it is not read: its request was no simple one."""
_SAME_MATTER_MS = 86_400_000
"""How long after a request its repetition is a correction of it."""

log = LateLogger(__name__)


async def look(stores: Stores, newest: int) -> int:
    """Learn from what has ended of the ``newest`` jobs since the last look; return how many jobs that were.

    Raises ``StoreUnavailable``, ``NotPermitted``.
    """
    jobs = await stores.lessons.newest(newest)
    fresh = [job for job in jobs if job.is_done and not job.is_looked_at][:MOST_READ]
    lessons = [lesson for job in fresh if (lesson := await _lesson_of(stores, job, jobs)) is not None]
    if lessons:
        await stores.lessons.change(lambda known: taken_in(known, lessons))
    await stores.lessons.note([job.id for job in fresh])
    return len(fresh)


async def _lesson_of(stores: Stores, job: EndedJob, jobs: Sequence[EndedJob]) -> Lesson | None:
    if job.is_untrusted:
        return None
    earlier = _same_before(job, jobs) if job.named else None
    if job.named and earlier is None:
        return None
    before = await _journal(stores, earlier.id) if earlier else None
    return lesson_in(job.id, await _journal(stores, job.id), before, user=job.user)


def _same_before(job: EndedJob, jobs: Sequence[EndedJob]) -> EndedJob | None:
    """Return the last routed job before ``job`` that the same user seems to have asked the same in."""
    same = [
        one
        for one in jobs
        if (one.user, one.summary, one.named) == (job.user, job.summary, "")
        and 0 <= job.created_ms - one.created_ms <= _SAME_MATTER_MS
    ]
    return max(same, key=lambda one: one.created_ms, default=None)


async def _journal(stores: Stores, job: str) -> list[Entry]:
    """Return a job's journal; empty for one that is too long, cannot be read, or that others have written."""
    try:
        entries = await stores.jobs.journal(job, limit=_LONGEST)
        if stores.signing:
            head_of(stores.signing, job, entries)
    except (UnreadableJournal, Forged) as error:
        log.warning("journal_teaches_nothing", job=job, error=str(error))
        return []
    return entries if len(entries) < _LONGEST else []
