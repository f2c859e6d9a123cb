"""Writes outlast a short absence of the server, and no longer."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from shared.errors import LostLease, StoreUnavailable
from shared.relay import patience
from shared.relay.patience import PatientWriter
from shared.stores.base import Appended, JobStore, Lease

LEASE = Lease("a" * 16 + ".1", 1, "7#1")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "AGAIN_S", 0.001)


class Server:
    """Fails as it is told, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.asked: list[tuple[Any, ...]] = []

    async def append(self, *args: Any, **_: Any) -> Appended:
        return Appended(self._answer(args))

    async def finish(self, *args: Any, **_: Any) -> tuple[str, str]:
        self._answer(args)
        return "ok", ""

    def _answer(self, args: tuple[Any, ...]) -> int:
        self.asked.append(args)
        if self._failures:
            raise self._failures.pop(0)
        return 3


def writer(server: Server, patience_s: float = 5.0) -> PatientWriter:
    """A patient writer to the double."""
    return PatientWriter(cast(JobStore, server), patience_s)


def test_a_write_is_repeated_alike_until_the_server_is_back() -> None:
    server = Server(StoreUnavailable("gone"), StoreUnavailable("loading"))
    assert asyncio.run(writer(server).append(LEASE, "t1", [], used_ms=1, is_progress=True)).seq == 3
    assert server.asked == [(LEASE, "t1", [])] * 3


def test_messages_that_can_be_read_once_are_sent_every_time() -> None:
    server = Server(StoreUnavailable("gone"))
    said: Sequence[str] = ["a", "b"]
    assert asyncio.run(writer(server).finish(LEASE, "c1", [], iter(said))) == ("ok", "")
    assert [args[3] for args in server.asked] == [["a", "b"]] * 2


def test_patience_ends() -> None:
    server = Server(*[StoreUnavailable("gone")] * 1000)
    with pytest.raises(StoreUnavailable):
        asyncio.run(writer(server, 0.05).append(LEASE, "t1", [], used_ms=1, is_progress=True))
    assert len(server.asked) > 1


def test_what_no_repetition_mends_is_not_repeated() -> None:
    server = Server(LostLease("not ours"))
    with pytest.raises(LostLease):
        asyncio.run(writer(server).append(LEASE, "t1", [], used_ms=1, is_progress=True))
    assert len(server.asked) == 1
