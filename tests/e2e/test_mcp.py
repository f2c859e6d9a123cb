"""MCP through the queue: real servers as tools, their questions answered after kills, the fleet as a server."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from ekiden.shared.embedded import attach
from ekiden.shared.mcp.entries import filled, server_of
from tests.e2e.program import Program, Running, program_in, wait_until

DOUBLE = Path(__file__).parents[1] / "doubles" / "mcp_server.py"
BIN = Path(sys.executable).parent
TOKEN = "only-for-tests"
KEYS = "k" * 32
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SCRIPT = """
agents:
  clerk:
    - {name: end, when: {turn: 2}, say: "the shop says: ${results.refund}"}
    - {name: ask, call: [{tool: mcp_shop_refund, label: refund, args: {text: "${user}"}}]}
  timer:
    - {name: end, when: {turn: 2}, say: "${results.time}"}
    - {name: ask, call: [{tool: mcp_time_get_current_time, label: time, args: {timezone: Asia/Shanghai}}]}
  historian:
    - {name: end, when: {turn: 2}, say: "${results.log}"}
    - {name: ask, call: [{tool: mcp_git_git_log, label: log, args: {repo_path: .}}]}
  doubter:
    - {name: end, when: {turn: 2}, say: "it says: ${results.echo}"}
    - {name: ask, call: [{tool: mcp_strange_echo, label: echo, args: {text: hello}}]}
  lost:
    - {name: end, say: "I work without"}
  parrot:
    - {name: end, say: "heard: ${user}"}
"""
AGENTS = {
    "clerk": "[shop]",
    "timer": "[time]",
    "historian": "[git]",
    "doubter": "[strange]",
    "lost": "[nowhere, gone]",
    "parrot": "[]",
}


@dataclass
class World:
    """A server, a dispatcher and a worker with MCP servers of its user's."""

    ekiden: Program
    worker: Running

    def submitted(self, prompt: str, agent: str, *options: str) -> str:
        done = self.ekiden.run("submit", prompt, "--agent", agent, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def answer(self, agent: str, *options: str) -> str:
        done = self.ekiden.run("submit", "please", "--agent", agent, "--wait", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def waiting(self, job: str) -> list[dict[str, Any]]:
        lines = self.ekiden.run("approvals", "list", "--json", "--job", job).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def start_worker(self) -> None:
        self.worker = self.ekiden.start("worker")
        self.worker.wait_for("Serving")

    def kill_worker(self) -> None:
        self.worker.process.kill()
        self.worker.ends()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("mcp")
    with attach(root / "server") as server, program_in(root) as ekiden:
        ekiden.env["EKIDEN_AUTO_APPROVE"] = "safe,low,medium"
        ekiden.env |= {"EKIDEN_REDIS_URL": server.url, "EKIDEN_LEASE_S": "3", **ekiden.scripts(SCRIPT)}
        servers = {
            "shop": {"command": sys.executable, "args": [str(DOUBLE), "modern"], "trust": True},
            "time": {"command": str(BIN / "mcp-server-time"), "trust": True},
            "git": {"command": str(BIN / "mcp-server-git"), "cwd": str(ekiden.folder), "trust": True},
            "strange": {"command": sys.executable, "args": [str(DOUBLE)]},
            "notes": {"command": sys.executable, "args": [str(DOUBLE), "library"]},
            "gone": {"command": "/nonexistent/server"},
        }
        settings = Path(ekiden.env["HOME"]) / ".gemini" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"mcpServers": servers}))
        agents = ekiden.folder / ".gemini" / "agents"
        agents.mkdir(parents=True)
        for name, used in AGENTS.items():
            text = f"---\nname: {name}\ndescription: The {name}.\nmcp: {{servers: {used}}}\n---\nYou are.\n"
            (agents / f"{name}.md").write_text(text)
        ekiden.start("dispatcher", "--publish").wait_for("Serving")
        world = World(ekiden, ekiden.started[-1])
        world.start_worker()
        yield world


def test_real_servers_answer_through_the_queue(world: World) -> None:
    assert "Asia/Shanghai" in world.answer("timer")
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--allow-empty", "-qm", "第一"],
    ):
        subprocess.run(["git", *words], cwd=world.ekiden.folder, check=True)
    assert "第一" in world.answer("historian")


def test_a_server_that_is_missing_costs_its_tools_and_not_the_job(world: World) -> None:
    job = world.submitted("please", "lost")
    assert "I work without" in world.ekiden.run("job", "follow", job).stdout
    told = world.ekiden.run("job", "events", job).stdout
    assert "MCP server not configured: nowhere" in told
    assert "there is no program '/nonexistent/server' here" in told
    wait_until(lambda: "/nonexistent/server" in world.ekiden.run("status", "--json").stdout)


def test_a_servers_question_is_answered_from_elsewhere_after_worker_and_server_were_killed(world: World) -> None:
    job = world.submitted("7", "clerk")
    wait_until(lambda: len(world.waiting(job)) == 1)
    [asked] = world.waiting(job)
    assert "Refund order 7?" in asked["text"]
    world.kill_worker()
    answered = world.ekiden.run("approvals", "answer", asked["id"], "yes")
    assert answered.returncode == 0, answered.stderr
    world.start_worker()
    assert "accept True for 7" in world.ekiden.run("job", "follow", job).stdout
    again = world.ekiden.run("job", "rerun", job)  # without the server, and as the kills had not been
    assert again.returncode == 0, again.stdout + again.stderr


def test_a_prompt_of_a_server_is_a_command_in_a_chat(world: World) -> None:
    typed = "/help\n/mcp:notes:review\n/mcp:notes:review a.py\nexit\n"
    said = world.ekiden.run("chat", "parrot", stdin=typed).stdout
    for part in ("/mcp:notes:review FILE [TONE]", "it needs file. Type", "heard: Review a.py kindly."):
        assert part in said


def test_a_tool_that_nobody_vouches_for_is_asked_about_and_its_denial_is_told(world: World) -> None:
    job = world.submitted("8", "doubter")
    wait_until(lambda: len(world.waiting(job)) == 1)
    [asked] = world.waiting(job)
    assert (asked["risk"], asked["kind"]) == ("high", "call")
    assert world.ekiden.run("approvals", "deny", asked["id"]).returncode == 0
    assert "Tool execution denied by user" in world.ekiden.run("job", "follow", job).stdout


def test_the_fleet_is_a_server_whose_replicas_go_on_with_each_others_questions(world: World) -> None:
    first, url = replica(world)
    second, other_url = replica(world)
    refused = httpx2.post(url, json={}, headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 401

    async def ask() -> types.InputRequiredResult:
        async with client(url) as one:
            names = {tool.name for tool in (await one.list_tools()).tools}
            assert {"clerk", "timer", "job_status", "job_result", "job_cancel"} <= names
            asked = await one.session.call_tool("clerk", {"objective": "9"}, 60, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            return asked

    async def answer(asked: types.InputRequiredResult) -> types.CallToolResult:
        [key] = asked.input_requests or {}
        given = {key: types.ElicitResult(action="accept", content={"answer": "yes"})}
        async with client(other_url) as one:
            call = partial(one.session.call_tool, "clerk", {"objective": "9"}, 60, input_responses=given)
            forged = (asked.request_state or "")[:-4] + "AAAA"
            with pytest.raises(MCPError, match="requestState"):
                await call(request_state=forged)
            done = await call(request_state=asked.request_state, allow_input_required=True)
            assert isinstance(done, types.CallToolResult)
            return done

    asked = asyncio.run(ask())
    first.process.kill()
    first.ends()
    done = asyncio.run(answer(asked))
    assert "accept True for 9" in text_of(done)
    second.interrupt()


def test_a_long_job_is_answered_with_its_id_and_the_same_request_is_one_job(world: World) -> None:
    serving, url = replica(world, "--answer-within", "0")

    async def call() -> None:
        async with client(url) as one:
            meta: Any = {"ekiden/requestId": "once"}
            first = await one.session.call_tool("timer", {"objective": "please"}, 60, meta=meta)
            again = await one.session.call_tool("timer", {"objective": "please"}, 60, meta=meta)
            assert isinstance(first, types.CallToolResult)
            assert isinstance(again, types.CallToolResult)
            job = first.structured_content["job"]
            assert again.structured_content["job"] == job
            status = await one.session.call_tool("job_status", {"job": job}, 60)
            assert isinstance(status, types.CallToolResult)
            assert job in str(status.structured_content)
            wrong = await one.session.call_tool("timer", {"question": 1}, 60)
            assert isinstance(wrong, types.CallToolResult)
            assert wrong.is_error
            assert "'objective' is a required property" in text_of(wrong)

    asyncio.run(call())
    serving.interrupt()


def written_for_others() -> list[Any]:
    """Return the servers of the configurations that ``docs/mcp.md`` gives to users of other programs."""
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8").partition("## Your agents as a server")[2]
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert len(blocks) == 2
    return [
        pytest.param(entry, id=f"{name}-{number}")
        for number, one in enumerate(blocks)
        for name, entry in one["mcpServers"].items()
    ]


@pytest.mark.parametrize("written", written_for_others())
def test_the_configurations_of_other_programs_work_as_they_are_documented(world: World, written: Any) -> None:
    ours = {"EKIDEN_REDIS_URL": world.ekiden.env["EKIDEN_REDIS_URL"], "EKIDEN_MCP_TOKEN": TOKEN}
    entry = filled(server_of("ekiden", written), ours)

    async def asked_by(one: Client) -> None:
        done = await one.session.call_tool("parrot", {"objective": "hello"}, 60)
        assert isinstance(done, types.CallToolResult)
        assert text_of(done) == "heard: hello"

    async def over_stdio() -> None:
        env = {**world.ekiden.env, **entry.env, "PATH": f"{BIN}:{world.ekiden.env['PATH']}"}
        program = StdioServerParameters(
            command=entry.command or "", args=list(entry.args), env=env, cwd=world.ekiden.folder
        )
        async with Client(stdio_client(program), mode="legacy", cache=None) as one:
            await asked_by(one)

    async def over_http(url: str) -> None:
        async with client(url, entry.headers) as one:
            await asked_by(one)

    if entry.transport == "stdio":
        asyncio.run(over_stdio())
    else:
        assert entry.address.endswith("/mcp")
        serving, url = replica(world)
        asyncio.run(over_http(url))
        serving.interrupt()


def test_an_older_client_is_told_what_a_job_waits_for_and_how_it_is_answered(world: World) -> None:
    serving, url = replica(world)

    async def ask() -> None:
        async with client(url, mode="legacy") as one:
            told = await one.session.call_tool("clerk", {"objective": "11"}, 60)
            assert isinstance(told, types.CallToolResult)
            assert "Refund order 11?" in text_of(told)
            [asked] = told.structured_content["waits_for"]
            assert f"ekiden approvals answer {asked} TEXT" in text_of(told)
            assert "job_result" in text_of(told)
            await asyncio.to_thread(world.ekiden.run, "approvals", "answer", asked, "yes")
            done = await one.session.call_tool("job_result", {"job": told.structured_content["job"]}, 60)
            assert isinstance(done, types.CallToolResult)
            assert "accept True for 11" in text_of(done)

    asyncio.run(ask())
    serving.interrupt()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not there")
def test_servers_of_npm_are_listed_and_called(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("npm")
    names = ["@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"]
    got = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *names],
        capture_output=True,
        check=False,
    )
    if got.returncode:
        pytest.skip("npm cannot install the servers here")
    program = folder / "node_modules" / ".bin"
    (folder / "note.txt").write_text("你好")
    servers = {
        "everything": {"command": str(program / "mcp-server-everything"), "trust": True},
        "files": {"command": str(program / "mcp-server-filesystem"), "args": [str(folder)], "trust": True},
    }
    (world.ekiden.folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    echoed = world.ekiden.run("mcp", "call", "everything", "echo", '{"message": "hello"}')
    assert "hello" in echoed.stdout, echoed.stderr
    read = world.ekiden.run("mcp", "call", "files", "read_text_file", json.dumps({"path": str(folder / "note.txt")}))
    assert "你好" in read.stdout, read.stderr


def replica(world: World, *options: str) -> tuple[Running, str]:
    env = {"EKIDEN_MCP_TOKEN": TOKEN, "EKIDEN_MCP_KEYS": KEYS}
    serving = world.ekiden.start("mcp", "serve", "--http", "0", *options, env=env)
    serving.wait_for("/mcp")
    found = re.search(r"http://\S+/mcp", serving.output)
    assert found
    return serving, found[0]


@asynccontextmanager
async def client(url: str, headers: Mapping[str, str] = BEARER, mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=httpx2.Timeout(60)) as http,
        Client(
            streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=_never, cache=None
        ) as one,
    ):
        yield one


async def _never(context: Any, params: Any) -> types.ElicitResult:
    raise AssertionError("the session hands questions over")


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
