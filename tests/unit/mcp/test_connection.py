"""How long a session is kept, and how often one that falls is opened anew."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from operator import ge
from pathlib import Path

import pytest

from ekiden.shared.mcp.entries import ServerEntry
from ekiden.workers.mcp import connection as connections
from ekiden.workers.mcp.connection import Connection
from ekiden.workers.mcp.failures import McpFailure, NotReached
from ekiden.workers.mcp.programs import Starter
from tests.unit.mcp.test_hub import children_of, double

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def connection(entry: ServerEntry, idle_s: float) -> AsyncIterator[Connection]:
    made = Connection("double", entry, {}, Starter({"PATH": os.environ["PATH"]}), idle_s)
    try:
        yield made
    finally:
        await made.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - it is another process that does it
            await asyncio.sleep(0.02)


async def test_a_server_that_nobody_calls_is_ended_and_started_again_by_the_next_call() -> None:
    async with connection(double("idle"), 0.1) as one:
        await one.open()
        await until(lambda: not one.is_open)
        assert not one.problem
        await one.call("echo", {"text": "hello"})
        assert one.opened == 2


async def test_a_server_that_is_to_be_there_from_the_start_stays() -> None:
    async with connection(double("stays", autoStart=True), 0.1) as one, connection(double("idle"), 0.1) as other:
        await one.open()
        await other.open()
        await until(lambda: not other.is_open)
        assert one.is_open


async def test_a_session_that_is_lost_again_and_again_is_opened_ever_more_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_AGAIN_S", 0.1)
    starts = tmp_path / "starts"
    async with connection(double("flaps", str(starts)), 600) as one:
        with suppress(NotReached):  # it may be gone before we look
            await one.open()

        def began() -> list[float]:
            return list(map(float, starts.read_text().split()))

        await until(lambda: len(began()) >= 4)
        pauses = [later - earlier for earlier, later in pairwise(began())]
        assert all(map(ge, pauses, (0.1, 0.2, 0.4)))


async def test_a_server_that_dies_while_nobody_calls_is_there_again_for_the_next_call() -> None:
    async with connection(double("killed-idle"), 600) as one:
        await one.open()
        [victim] = children_of("mcp_server.py", "killed-idle")
        os.kill(victim, signal.SIGKILL)
        await until(lambda: one.opened == 2)
        await one.call("echo", {"text": "hello"})


async def test_each_server_has_a_timeout_of_its_own() -> None:
    async with connection(double("slow", timeout=200), 600) as slow, connection(double("patient"), 600) as patient:
        with pytest.raises(McpFailure, match=r"gave no result in 0.2 s; what it did is unknown"):
            await slow.call("hang", {})
        await patient.call("echo", {"text": "hello"})
