"""Sessions with real servers: whatever a server does, its caller gets one answer, and no other server notices."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ekiden.shared.errors import ToolError
from ekiden.shared.mcp.entries import ServerEntry, server_of
from ekiden.workers.mcp.failures import McpFailure, NotReached
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.toolbox import McpTools
from ekiden.workers.tools.base import ToolContext

pytestmark = pytest.mark.anyio

DOUBLE = Path(__file__).parents[2] / "doubles" / "mcp_server.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    hub = Hub({"TOKEN": "t0ken"}, Starter({"PATH": os.environ["PATH"]}))
    yield hub
    hub.close()


class Remembered(dict[str, str]):
    """Listings of the workers of one test."""

    async def get(self, server: str) -> str | None:  # type: ignore[override]
        return super().get(server)

    async def put(self, server: str, text: str) -> None:
        self[server] = text


def double(*how: str, **said: Any) -> ServerEntry:
    return server_of("double", {"command": sys.executable, "args": [str(DOUBLE), *how], **said})


async def echo(hub: Hub, entry: ServerEntry, text: str = "你好") -> str:
    result = await hub.call("double", entry, "echo", {"text": text})
    return str(result.content[0].text)


async def test_a_server_is_started_at_its_first_use_and_lists_its_tools(hub: Hub) -> None:
    listing = await hub.listing("double", double())
    assert listing.server == "double 1.2"
    assert "echo" in {tool.name for tool in listing.tools}
    assert await echo(hub, double()) == "你好"


async def test_agents_of_the_same_entry_share_one_process(hub: Hub) -> None:
    assert [await echo(hub, double("shared")) for _ in range(3)] == ["你好"] * 3
    assert len(children_of("mcp_server.py", "shared")) == 1


async def test_a_program_gets_what_its_entry_says_and_nothing_of_the_workers_secrets(hub: Hub) -> None:
    result = await hub.call("double", double(env={"CRM": "${TOKEN}"}), "environment", {})
    environment = result.content[0].text
    assert '"CRM": "t0ken"' in environment
    assert "TOKEN" not in environment.replace("t0ken", "")


async def test_fifty_calls_run_at_once_on_one_session(hub: Hub) -> None:
    texts = [str(number) for number in range(50)]
    assert await asyncio.gather(*(echo(hub, double(), text) for text in texts)) == texts


async def test_a_server_that_dies_in_a_call_is_started_anew_for_the_next_one(hub: Hub, tmp_path: Path) -> None:
    entry = double("dies-once", str(tmp_path / "died"))
    with pytest.raises(McpFailure, match="was lost while 'die' ran; what it did is unknown"):
        await hub.call("double", entry, "die", {})
    result = await hub.call("double", entry, "die", {})
    assert result.content[0].text == "alive"


async def test_a_server_that_is_killed_from_outside_is_started_anew(hub: Hub) -> None:
    entry = double("killed")
    await echo(hub, entry)
    [victim] = children_of("mcp_server.py", "killed")
    os.kill(victim, signal.SIGKILL)
    ends = time.monotonic() + 60
    while True:  # a call that is faster than the news of its end fails; the one behind it may not
        try:
            assert await echo(hub, entry) == "你好"
            break
        except McpFailure:
            assert time.monotonic() < ends
    assert children_of("mcp_server.py", "killed") != [victim]


async def test_a_call_that_hangs_ends_at_the_entrys_timeout_and_holds_up_no_other(hub: Hub) -> None:
    entry = double("hangs", timeout=300)
    with pytest.raises(McpFailure, match=r"'hang' of the MCP server 'double' gave no result in 0.3 s"):
        await hub.call("double", entry, "hang", {})


async def test_a_cancelled_call_leaves_the_session_usable(hub: Hub) -> None:
    entry = double("cancelled")
    await echo(hub, entry)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hub.call("double", entry, "odd_bytes", {}), 0)
    assert await echo(hub, entry) == "你好"


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("sampling/createMessage", "Sampling not supported"),
        ("roots/list", "List roots not supported"),
        ("elicitation/create", '"action": "cancel"'),
    ],
)
async def test_what_a_server_wants_in_the_middle_of_a_call_is_refused_and_the_call_goes_on(
    hub: Hub, method: str, reply: str
) -> None:
    result = await hub.call("double", double(), "demand", {"text": method})
    assert reply in result.content[0].text


@pytest.mark.parametrize("how", ["garbled", "odd"])
async def test_what_is_no_message_is_passed_over(hub: Hub, how: str) -> None:
    result = await hub.call("double", double(how), "odd_bytes", {})
    assert result.content[0].text == "alive"


async def test_a_message_beyond_all_bounds_ends_the_session_quickly(hub: Hub) -> None:
    began = time.monotonic()
    with pytest.raises(McpFailure, match="was lost while 'huge' ran"):
        await hub.call("double", double("huge"), "huge", {})
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (server_of("double", {"command": "/nonexistent/program"}), "there is no program '/nonexistent/program' here"),
        (server_of("double", {"command": sys.executable, "args": ["-c", "exit('no licence')"]}), "it said: no licence"),
        (server_of("double", {"command": "x", "env": {"A": "$MISSING"}}), "has no MISSING: set it"),
        (double(expect={"version": "9.9"}), "its version is '1.2', where 'expect' demands '9.9'"),
        (server_of("double", {"httpUrl": "http://127.0.0.1:9/mcp"}), "is not there"),
        (
            server_of("double", {"url": "http://127.0.0.1:9", "headersHelper": ["false"]}),
            "'headersHelper' 'false' ended with exit code 1",
        ),
    ],
)
async def test_a_server_that_is_not_there_says_why_and_is_not_waited_for(
    hub: Hub, entry: ServerEntry, why: str
) -> None:
    with pytest.raises(NotReached, match="the MCP server 'double' is not there") as told:
        await hub.listing("double", entry)
    assert why in str(told.value)


async def test_one_bad_tool_hides_neither_its_server_nor_another(hub: Hub) -> None:
    servers = {
        "broken": double("broken-tools"),
        "away": server_of("away", {"command": "/nonexistent"}),
        "good": double(),
    }
    offered = await McpTools(hub, Remembered()).of(servers)
    assert {"mcp_broken_echo", "mcp_good_echo"} <= {tool.name for tool in offered.tools}
    told = "\n".join(offered.problems)
    for part in (
        "'no_schema' of the MCP server 'broken' is left out",
        "'no_type' of",
        "'odd' of",
        "'away' is not there",
    ):
        assert part in told


async def test_a_server_is_listed_once_for_all_workers_and_started_by_the_first_call(hub: Hub) -> None:
    remembered = Remembered()
    first = await McpTools(hub, remembered).of({"double": double("listed")})
    other = Hub({}, Starter({"PATH": os.environ["PATH"]}))
    second = await McpTools(other, remembered).of({"double": double("listed")})
    assert [tool.spec for tool in second.tools] == [tool.spec for tool in first.tools]
    assert not other.health()
    other.close()


async def test_hints_set_the_risk_only_where_the_user_trusts_the_server(hub: Hub) -> None:
    for trust, risks in ((False, {"high"}), (True, {"safe", "medium", "high"})):
        offered = await McpTools(hub, Remembered()).of({"double": double(trust=trust)})
        assert {tool.risk for tool in offered.tools} == risks
        assert {tool.untrusted for tool in offered.tools} == {not trust}


async def test_a_result_is_text_and_an_error_of_the_server_is_one_for_the_model(hub: Hub, tmp_path: Path) -> None:
    offered = {tool.name: tool for tool in (await McpTools(hub, Remembered()).of({"double": double()})).tools}
    context = ToolContext("j", 1, "a", "c", tmp_path, tmp_path)

    async def call(name: str, **args: str) -> Any:
        tool = offered[f"mcp_double_{name}"]
        return await tool.function(tool.parse(args), context)  # type: ignore[misc]

    assert (await call("echo", text="hello")).text == "hello"
    assert "image-1.png, image/png, 8 bytes" in (await call("picture")).text
    with pytest.raises(ToolError, match="it broke"):
        await call("fail")
    with pytest.raises(ToolError, match="not valid"):
        offered["mcp_double_echo"].parse({"text": 7})


async def test_closing_ends_the_programs() -> None:
    own = Hub({}, Starter({"PATH": os.environ["PATH"]}))
    await own.listing("double", double("closes"))
    assert children_of("mcp_server.py", "closes")
    await asyncio.to_thread(own.close)
    assert not children_of("mcp_server.py", "closes")


def children_of(program: str, how: str) -> list[int]:
    """Return the running programs of this process with these arguments."""
    ending = [one for one in (program, how) if one]
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = [Path(word).name for word in child.cmdline()]
            if words[-len(ending) :] == ending and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found
