"""Writes outlast a short absence of the server, and no longer."""

import asyncio
from typing import Any

import pytest

from ekiden.shared.errors import LostLease, StoreUnavailable
from ekiden.shared.relay import write_retries
from ekiden.shared.relay.write_retries import WriteRetries
from ekiden.shared.stores.base import Appended, Lease

LEASE = Lease("a" * 16 + ".1", 1, "7#1")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_retries, "AGAIN_S", 0.001)


class Server:
    """Fails as it is told, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.asked: list[tuple[Any, ...]] = []

    async def append(self, *args: Any, **_: Any) -> Appended:
        return Appended(self._answer(args))

    def _answer(self, args: tuple[Any, ...]) -> int:
        self.asked.append(args)
        if self._failures:
            raise self._failures.pop(0)
        return 3


def append(server: Server, max_wait_s: float = 5.0) -> Appended:
    """Append to the double, with patience."""
    return asyncio.run(WriteRetries(max_wait_s)(server.append, LEASE, "t1", [], used_ms=1, is_progress=True))


def test_a_write_is_repeated_alike_until_the_server_is_back() -> None:
    server = Server(StoreUnavailable("gone"), StoreUnavailable("loading"))
    assert append(server).seq == 3
    assert server.asked == [(LEASE, "t1", [])] * 3


def test_patience_ends() -> None:
    server = Server(*[StoreUnavailable("gone")] * 1000)
    with pytest.raises(StoreUnavailable):
        append(server, 0.05)
    assert len(server.asked) > 1


def test_without_patience_a_write_is_tried_once() -> None:
    server = Server(StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable, match="gone"):
        append(server, 0.0)
    assert len(server.asked) == 1


def test_what_stands_in_the_way_of_a_repetition_is_raised_at_once() -> None:
    server = Server(StoreUnavailable("gone"), LostLease("not ours"))
    with pytest.raises(LostLease):
        append(server)
    assert len(server.asked) == 2


def test_what_no_repetition_mends_is_not_repeated() -> None:
    server = Server(LostLease("not ours"))
    with pytest.raises(LostLease):
        append(server)
    assert len(server.asked) == 1
