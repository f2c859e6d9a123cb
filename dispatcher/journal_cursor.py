"""Reading journals: how far, by who notices when the server goes back in time, and which other jobs they name."""

from collections.abc import Iterable, Sequence

from ekiden.shared.errors import UnknownJob
from ekiden.shared.ids import parent_of
from ekiden.shared.records import Delegated, Entry, JobRequested
from ekiden.shared.stores.views import JobView

__all__ = ["JournalCursor", "delegated_in"]


def delegated_in(job: str, entries: Iterable[Entry]) -> list[str]:
    """Return the jobs that ``job`` has delegated, by its journal; in a fork, not those of the job it comes from."""
    found = (entry.record.child for entry in entries if isinstance(entry.record, Delegated))
    return [child for child in found if parent_of(child) == job]


class JournalCursor:
    """The last entry of one journal that was read. A server that comes back with less may have another there.

    ``request_id``: whose job it is, where the reader knows that; else it is what the first entry says that is read.
    """

    def __init__(self, job: str, request_id: str | None = None) -> None:
        self._job = job
        self._request_id = request_id
        self._read: list[tuple[int, int]] = []

    @property
    def seq(self) -> int:
        """The entry's number; 0 at the beginning."""
        return self._read[-1][0] if self._read else 0

    @property
    def seen_ms(self) -> int | None:
        """When the entry was written; None at the beginning."""
        return self._read[-1][1] if self._read else None

    def note(self, entry: Entry) -> None:
        """Come to the next entry. Raises ``UnknownJob`` when the journal is another job's, of the same number."""
        self._require_ours([entry])
        self._read.append((entry.seq, entry.at_ms))

    def go_back(self, entries: Sequence[Entry]) -> int:
        """Go back to the last entry that the whole journal as it is now still has; return how many it lost.

        Raises ``UnknownJob`` as ``note`` does.
        """
        self._require_ours(entries[:1])
        has = {(entry.seq, entry.at_ms) for entry in entries}
        before = len(self._read)
        while self._read and self._read[-1] not in has:
            self._read.pop()
        return before - len(self._read)

    def checked(self, view: JobView) -> JobView:
        """Return ``view``, which is of the job. Raises ``UnknownJob`` as ``note`` does."""
        self._require(view.request_id or None)
        return view

    def _require_ours(self, entries: Sequence[Entry]) -> None:
        for request in (entry.record for entry in entries if isinstance(entry.record, JobRequested)):
            self._require(request.request_id)

    def _require(self, request_id: str | None) -> None:
        if self._request_id not in (None, request_id):
            raise UnknownJob(
                f"the server went back in time and has lost job {self._job}: another request has its number now; "
                "submit yours again"
            )
        self._request_id = request_id
