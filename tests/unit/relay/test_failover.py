"""Another server, or one that lost something, makes a pool ask for all its leases; the same one does not."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.relay.failover import FailoverDetector
from ekiden.shared.relay.leases import Leases
from ekiden.shared.stores.durability import Identity
from ekiden.shared.stores.opening import Stores

FIRST = Identity("run1", "repl1", 1_000)


class Server:
    """Stores and leases in one double: answers with what it is told to be, and counts who asks for leases."""

    def __init__(self) -> None:
        self.told: Identity | None = FIRST
        self.jobs = self
        self.renewals = 0
        self.is_gone = False

    async def identity(self) -> Identity | None:
        return self.told

    async def renew(self, _: Any) -> None:
        if self.is_gone:
            raise StoreUnavailable("gone again")
        self.renewals += 1

    def __len__(self) -> int:
        return 3


async def look(known: FailoverDetector, server: Server) -> None:
    await known.look(cast(Stores, server))


def known_by(server: Server) -> FailoverDetector:
    return FailoverDetector(cast(Leases, server))


@pytest.mark.parametrize(
    "other",
    [replace(FIRST, run_id="run2"), replace(FIRST, replication_id="repl2"), replace(FIRST, offset=999)],
    ids=["restarted", "promoted", "behind"],
)
def test_a_server_that_changed_is_told_once_and_asked_for_all_leases(other: Identity) -> None:
    async def scenario() -> None:
        server = Server()
        known = known_by(server)
        await look(known, server)
        assert server.renewals == 0
        server.told = other
        with capture_logs() as logs:
            await look(known, server)
            await look(known, server)
        assert [(one["event"], one["legs"]) for one in logs] == [("server_changed", 3)]
        assert server.renewals == 1

    asyncio.run(scenario())


def test_a_server_that_goes_on_or_does_not_tell_is_left_alone() -> None:
    async def scenario() -> None:
        server = Server()
        known = known_by(server)
        for told in (None, FIRST, replace(FIRST, offset=2_000), None):
            server.told = told
            await look(known, server)
        assert server.renewals == 0
        server.told = replace(FIRST, run_id="run2")
        await look(known, server)
        assert server.renewals == 1, "what it did not tell meanwhile is not forgotten"

    asyncio.run(scenario())


def test_leases_that_could_not_be_asked_for_are_asked_for_again() -> None:
    async def scenario() -> None:
        server = Server()
        known = known_by(server)
        await look(known, server)
        server.told, server.is_gone = replace(FIRST, run_id="run2"), True
        with capture_logs() as logs:
            with pytest.raises(StoreUnavailable):
                await look(known, server)
            server.is_gone = False
            await look(known, server)
        assert len(logs) == 1
        assert server.renewals == 1

    asyncio.run(scenario())
