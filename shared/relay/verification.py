"""Which messages and legs a pool accepts: where there are keys, those that this deployment has signed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from ekiden.shared.errors import Forged
from ekiden.shared.records import Ended, Entry, HandedOff, untrusted_in
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.relay.message import LegMessage, queue_of
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores.base import Claimed, JobReader, JobStore
from ekiden.shared.stores.dead_letters import RedisDeadLetterStore
from ekiden.shared.stores.journal_signatures import head_of, verified
from ekiden.shared.stores.views import JobView

__all__ = ["MessageVerifier"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class MessageVerifier:
    """Checks, and keeps what failed. Without keys it accepts everything."""

    signing: Signing = OFF
    dead_letters: RedisDeadLetterStore | None = None

    async def is_misplaced(self, message: LegMessage, queue: str) -> bool:
        """Tell whether a message was in a queue that its leg is not for; it is kept as a dead letter then."""
        if not self.signing or queue == queue_of(message):
            return False
        await self.bury(message, queue, f"the message belongs into the queue {queue_of(message)!r}")
        return True

    def check(self, claimed: Claimed, entries: Sequence[Entry], after: int = 0, head: str = "") -> None:
        """Raise ``Forged`` unless this deployment has written the leg; note in its lease where its chain ends.

        ``after``: how many of ``entries`` were checked before, and end with ``head``.
        """
        if self.signing:
            claimed.lease.head = verified(self.signing, claimed, entries, after, head)

    def reader(self, store: JobStore) -> JobReader:
        """Return what tells a leg of the jobs that it has delegated."""
        return _SignedEnds(store, self.signing) if self.signing else store

    async def bury(self, message: LegMessage, queue: str, reason: str) -> None:
        """Keep a message that leads to nothing that this deployment has written."""
        log.error("dead_letter", queue=queue, job=message.job, leg=message.leg, reason=reason)
        if self.dead_letters is not None:
            await self.dead_letters.bury(queue, reason, message.model_dump_json(exclude_none=True).encode())

    def end_of(self, leg: int, error: Forged) -> Ended:
        """Return the end of a job whose signatures are wrong."""
        text = f"{error}: somebody else writes to the server, or signs with another key (ekiden.signing_key)"
        return Ended(leg=leg, status="failed", reason="FORGED", error=text)


@dataclass(frozen=True)
class _SignedEnds:
    """Tells of jobs what their signed journals say, all that a model reads of them: a hash may say anything."""

    store: JobStore
    signing: Signing

    async def views(self, jobs: Sequence[str]) -> list[JobView]:
        """See ``JobReader``. Raises ``Forged``."""
        return [await self._as_signed(view) for view in await self.store.views(jobs)]

    async def ends(self, jobs: Sequence[str]) -> dict[str, Ended]:
        """See ``JobReader``. Raises ``Forged``."""
        for job in jobs:
            head_of(self.signing, job, await journal_of(self.store, job))
        return await self.store.ends(jobs)

    async def journal(
        self, job: str, after: int = 0, *, wait_s: float = 0.0, limit: int = 500, seen_ms: int | None = None
    ) -> list[Entry]:
        """See ``JobReader``. Raises ``Forged``."""
        head_of(self.signing, job, await journal_of(self.store, job))
        return await self.store.journal(job, after, wait_s=wait_s, limit=limit, seen_ms=seen_ms)

    async def _as_signed(self, view: JobView) -> JobView:
        entries = await journal_of(self.store, view.id)
        head_of(self.signing, view.id, entries)
        signed = replace(view, agent=_agent_of(entries))
        return _ended(signed, entries) if view.is_over else replace(signed, result=None, reason=None)


def _agent_of(entries: Sequence[Entry]) -> str:
    """Return whose job it is: a delegated one begins with the move to its agent."""
    moves = [entry.record.context.to_agent for entry in entries if isinstance(entry.record, HandedOff)]
    if not moves:
        raise Forged("the journal of a delegated job names no agent")
    return moves[-1]


def _ended(view: JobView, entries: Sequence[Entry]) -> JobView:
    end = entries[-1].record if entries else None
    if not isinstance(end, Ended):
        raise Forged(f"job {view.id!r} is said to have ended, and its journal has no end")
    untrusted = bool(untrusted_in(entry.record for entry in entries))
    result = end.answer if end.answer is not None else end.error or ""
    return replace(view, status=end.status, reason=end.reason, result=result, untrusted=untrusted)
