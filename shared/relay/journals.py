"""The journals that a process has read: what it knows of one it need not read again when it comes back to the job."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.shared.errors import LostLease
from ekiden.shared.records import Entry, LegStarted
from ekiden.shared.relay.leg import Folds, journal_of
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.stores.base import Claimed, JobStore, Lease

__all__ = ["Journals"]

SHORTEST = 32
"""Entries from which on a journal is kept: a shorter one is read as fast."""
MOST_SIZE = 8_000_000
"""Characters of all that is kept."""
LEAST_OF_ENTRY = 1_000
"""Characters that each entry counts for at least: a small one takes as much memory."""


@dataclass(frozen=True)
class _Known:
    """The beginning of a journal, which ends with the start of a leg."""

    entries: list[Entry]
    head: str
    """The tag of the last chained entry, where journals are signed."""
    size: int
    folds: Folds
    """See ``Leg.folds``."""


class Journals:
    """Reads the journals of legs that this process has claimed.

    A journal is only appended to, unless the server goes back in time. So what is kept of one ends with the start of a
    leg: no other claim writes the same (``LegStarted.claim``). As long as the server has just that entry there, all
    before it is as it was, whoever has had the job since.
    """

    def __init__(self, store: JobStore, verifier: MessageVerifier) -> None:
        self._store = store
        self._verifier = verifier
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """Those used last are the last."""
        self._size = 0

    def length(self, job: str) -> int:
        """Return how many entries of a journal need not be read again; see ``Claim.known``."""
        known = self._known.get(job)
        return len(known.entries) if known else 0

    def folds(self, lease: Lease) -> Folds:
        """Return what has been made of a journal up to where ``read`` has just read it, to be added to."""
        known = self._known.get(lease.job)
        return known.folds if known and known.folds.upto == lease.seq else Folds(lease.seq)

    async def read(self, claimed: Claimed) -> list[Entry]:
        """Return the journal of a leg up to where it was claimed. Raises ``LostLease`` and ``Forged``."""
        lease, page = claimed.lease, await self._store.page(claimed)
        known = self._confirmed(lease.job, page)
        begun = page if page and page[0].seq == 1 else []
        if known is not None:
            begun = [*known.entries, *page[1:]]
        entries = await journal_of(self._store, lease.job, lease.seq, begun=begun)
        if len(entries) < lease.seq:
            raise LostLease(f"the server has forgotten steps of job {lease.job!r} since it was claimed")
        if known is None:
            self._verifier.check(claimed, entries)
        else:
            self._verifier.check(claimed, entries, len(known.entries), known.head)
        if len(entries) == lease.seq >= SHORTEST:
            self._keep(lease.job, entries, lease.head or "", known)
        return entries

    def forget(self, job: str) -> None:
        """Keep nothing of a job: it has ended, or is not what it was."""
        if (known := self._known.pop(job, None)) is not None:
            self._size -= known.size

    def _confirmed(self, job: str, page: Sequence[Entry]) -> _Known | None:
        """Return what is known of a journal, if the server has the last of it, with which ``page`` begins, too."""
        known = self._known.get(job)
        if known is not None and page and page[0] == known.entries[-1]:
            return known
        self.forget(job)
        return None

    def _keep(self, job: str, entries: Sequence[Entry], head: str, known: _Known | None) -> None:
        if not (isinstance(last := entries[-1].record, LegStarted) and last.claim):
            return
        new = entries[len(known.entries) :] if known else entries
        size = (known.size if known else 0) + sum(max(LEAST_OF_ENTRY, entry.size) for entry in new)
        self.forget(job)
        if size > MOST_SIZE:
            return
        self._known[job] = _Known(
            [*entries], head, size, Folds(len(entries), known.folds.made if known else {}, is_kept=True)
        )
        self._size += size
        while self._size > MOST_SIZE:
            self.forget(next(iter(self._known)))
