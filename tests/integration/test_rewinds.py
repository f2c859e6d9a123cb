"""A real server that comes back from a crash with less than it had: who worked on what it forgot stops at once."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ekiden.shared.outcomes import Outcome
from ekiden.shared.relay.heartbeat import Heartbeat
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE
from ekiden.shared.relay.runner import Runner
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores, open_stores
from tests.contract.relay_world import submitted
from tests.integration.proxy import Server
from tests.unit.relay.legs import Playing, take

LEASE_S = 300.0
WITHIN_S = 60.0
"""Less than the time between two renewals."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    yield one
    one.kill()


async def forgotten_claim(stores: Stores, leases: Leases, server: Server) -> str:
    """Run a leg whose claim the server forgets; return what became of it."""
    await submitted(stores)
    message = await take(stores, DISPATCH_QUEUE)
    before = server.written()

    async def long(leg: Leg) -> Outcome:
        await asyncio.to_thread(server.go_back, before)
        await asyncio.sleep(LEASE_S)
        raise AssertionError("nobody stopped it")

    runner = Runner(stores.jobs, leases, Playing(long), cycles="parent")
    return await asyncio.wait_for(runner.run(message, DISPATCH_QUEUE), WITHIN_S)


def test_a_leg_whose_claim_is_forgotten_stops_long_before_its_lease_ends(server: Server) -> None:
    leases = Leases(LEASE_S)

    async def scenario() -> None:
        stores = open_stores(server.url)
        beat = Heartbeat(server.url, Settings(lease_s=LEASE_S), leases, describe=None)
        beat.start()
        try:
            assert await forgotten_claim(stores, leases, server) == "lost"
        finally:
            await asyncio.to_thread(beat.stop)
            await stores.close()

    with capture_logs() as logs:
        began = time.monotonic()
        asyncio.run(scenario())
        print(f"stopped after {time.monotonic() - began:.1f} s")
    assert [one["legs"] for one in logs if one["event"] == "server_changed"] == [1]
