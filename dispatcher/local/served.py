"""What MCP servers offered, put into the journals that name it: they are read where the server is not."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ekiden.shared.records import Entry, Served, ServedTools

__all__ = ["unserved", "with_served"]


class Keeper(Protocol):
    """Knows what servers offered: a client."""

    async def served(self, digest: str) -> ServedTools | None:
        """Return it by its digest; None: it is kept no more."""
        ...


async def with_served(client: Keeper, journals: Mapping[str, Sequence[Entry]]) -> dict[str, list[Entry]]:
    """Return journals whose records of what was offered have it in them, as far as it is still kept."""
    named = {one.record.digest for entries in journals.values() for one in entries if isinstance(one.record, Served)}
    kept = {digest: await client.served(digest) for digest in named}
    return {job: [_filled(one, kept) for one in entries] for job, entries in journals.items()}


def unserved(was: Mapping[str, Sequence[Entry]], now: Mapping[str, Sequence[Entry]]) -> set[tuple[str, str]]:
    """Return the jobs and agents that were offered something now and of which is not known what it was then."""
    known = {(job, one.agent) for job, one in _served(was) if one.tools is not None}
    return {(job, one.agent) for job, one in _served(now)} - known


def _served(journals: Mapping[str, Sequence[Entry]]) -> list[tuple[str, Served]]:
    found = ((job, one.record) for job, entries in journals.items() for one in entries)
    return [(job, record) for job, record in found if isinstance(record, Served)]


def _filled(entry: Entry, kept: Mapping[str, ServedTools | None]) -> Entry:
    record = entry.record
    if not isinstance(record, Served):
        return entry
    return entry._replace(record=record.model_copy(update={"tools": kept[record.digest]}))
