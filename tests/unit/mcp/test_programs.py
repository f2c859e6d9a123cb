"""Programs of servers: what they start ends with them and with their worker, and the sandbox holds who asks for it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import server_of
from ekiden.shared.settings.model import Settings
from ekiden.workers.mcp.failures import NotReached
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from tests.processes import is_gone
from tests.unit.mcp.test_hub import DOUBLE, double

pytestmark = pytest.mark.anyio

ENV = {"PATH": os.environ["PATH"]}
WORKER = f"""
import asyncio, sys
from ekiden.shared.mcp.entries import server_of
from ekiden.workers.mcp.programs import Starter

async def work():
    entry = server_of("double", {{"command": sys.executable, "args": [{str(DOUBLE)!r}, "stubborn", sys.argv[1]]}})
    async with Starter({ENV!r}).started(entry, 1_000) as program:
        print((await program.stderr.readline()).decode(), flush=True)
        await asyncio.sleep(600)

asyncio.run(work())
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def hub_in(sandbox: Sandbox = OFF) -> AsyncIterator[Hub]:
    async def chosen() -> Sandbox:
        return sandbox

    hub = Hub({}, Starter(ENV, chosen))
    try:
        yield hub
    finally:
        await asyncio.to_thread(hub.close)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    found = asyncio.run(choose(Settings(), for_tools(os.environ, ())))
    if not found.holds:
        pytest.skip(f"nothing confines programs here: {found.why}")
    return found


async def test_a_server_that_heeds_nothing_ends_with_its_hub_and_so_does_what_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with hub_in() as hub:
        await hub.listing("double", double("stubborn", str(file)))
        pids = pids_in(file)
        assert not any(map(is_gone, pids))
    assert all(map(is_gone, pids))


def test_a_worker_that_is_killed_leaves_no_server_behind_that_heeds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    command = [sys.executable, "-c", WORKER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"started\n"
        pids = pids_in(file)
        os.kill(worker.pid, signal.SIGKILL)
    ends = time.monotonic() + 20
    while not all(map(is_gone, pids)):
        assert time.monotonic() < ends
        time.sleep(0.02)


NOT_MADE = ("PermissionError", "FileNotFoundError")
"""What a folder of others is, by the mechanism: closed, or not there."""


async def test_a_confined_server_writes_in_its_own_folder_only(sandbox: Sandbox, tmp_path: Path) -> None:
    named, other = tmp_path / "named", tmp_path / "other"
    for folder in (named, other):
        folder.mkdir()
    async with hub_in(sandbox) as hub:

        async def touched(file: Path, **said: str) -> str:
            result = await hub.call("double", double(sandbox=True, **said), "touch", {"text": str(file)})
            return str(result.content[0].text)

        assert await touched(named / "a", cwd=str(named)) == "made"
        assert await touched(Path("a")) == "made"
        assert await touched(named / "b") in NOT_MADE
        assert await touched(other / "a", cwd=str(named)) in NOT_MADE
    assert not list(other.iterdir())
    assert [file.name for file in named.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("sandbox", "why"),
    [(replace(OFF, why="tools.sandbox is 'off'"), "tools.sandbox is 'off'"), (OFF, "no filter of system calls")],
)
async def test_a_server_that_is_to_be_confined_is_not_started_where_nothing_confines_it(
    sandbox: Sandbox, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    async with hub_in(sandbox) as hub:
        with pytest.raises(NotReached, match="nothing confines programs here") as told:
            await hub.listing("double", double("stubborn", str(file), sandbox=True))
    assert why in str(told.value)
    assert not file.exists()


async def test_a_folder_that_is_not_there_is_told() -> None:
    async with hub_in() as hub:
        with pytest.raises(NotReached, match=r"its folder '/nonexistent' \('cwd'\) is not there"):
            await hub.listing("double", double(cwd="/nonexistent"))


def test_a_network_is_kept_from_confined_programs_only() -> None:
    with pytest.raises(ConfigurationError, match="'network' goes with 'sandbox: true' only"):
        server_of("double", {"command": "x", "network": False})


def pids_in(file: Path) -> list[int]:
    return list(map(int, file.read_text().split()))
