"""Writes of running legs that outlast a server's restart: what is in hand is worth more than a moment's wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from shared.errors import StoreUnavailable
from shared.records import Record
from shared.stores.base import (
    NOTHING,
    Appended,
    ChildSubmission,
    Claim,
    Claimed,
    ClaimVerdict,
    CommitVerdict,
    JobStore,
    Lease,
    Spent,
    Step,
)

__all__ = ["PatientWriter"]

AGAIN_S = 0.2

T = TypeVar("T")


class PatientWriter:
    """The writing half of a ``JobStore``; each write is repeated while the server is away, for ``patience_s`` at most.

    Repeating is safe: claims, appends and commits are recognised by the store. A leg whose lease runs out meanwhile is
    cancelled by its ``Leases``; ``patience_s`` is therefore the length of a lease.
    """

    def __init__(self, store: JobStore, patience_s: float) -> None:
        self._store = store
        self._patience_s = patience_s

    async def claim(self, claim: Claim, lease_s: float, *, alone_from: int, aside_s: float) -> Claimed | ClaimVerdict:
        """See ``JobStore``."""
        return await self._persist(
            lambda: self._store.claim(claim, lease_s, alone_from=alone_from, aside_s=aside_s),
        )

    async def append(
        self,
        lease: Lease,
        token: str,
        records: Sequence[Record],
        *,
        used_ms: int,
        is_progress: bool,
        spent: Spent = NOTHING,
    ) -> Appended:
        """See ``JobStore``."""
        return await self._persist(
            lambda: self._store.append(lease, token, records, used_ms=used_ms, is_progress=is_progress, spent=spent)
        )

    async def transfer(self, lease: Lease, commit_id: str, step: Step) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        return await self._persist(lambda: self._store.transfer(lease, commit_id, step))

    async def suspend(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        delay_s: float,
        *,
        children: Sequence[ChildSubmission] = (),
        need: int = 0,
        state: Mapping[str, Any] | None = None,
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        return await self._persist(
            lambda: self._store.suspend(lease, commit_id, records, delay_s, children=children, need=need, state=state)
        )

    async def finish(
        self,
        lease: Lease,
        commit_id: str,
        records: Sequence[Record],
        messages: Iterable[str],
        *,
        state: Mapping[str, Any] | None = None,
    ) -> tuple[CommitVerdict, str]:
        """See ``JobStore``."""
        said = list(messages)
        return await self._persist(lambda: self._store.finish(lease, commit_id, records, said, state=state))

    async def _persist(self, write: Callable[[], Awaitable[T]]) -> T:
        gives_up = time.monotonic() + self._patience_s
        while True:
            try:
                return await write()
            except StoreUnavailable:
                if time.monotonic() + AGAIN_S > gives_up:
                    raise
            await asyncio.sleep(AGAIN_S)
