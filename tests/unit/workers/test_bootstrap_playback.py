"""What a pool of recordings is put together of decides as one does that asks models."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.dispatcher.local.served import unserved, with_served
from ekiden.shared.approvals import Answer
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, BeforeToolSelection, Event
from ekiden.shared.hooks.intervening import Intervening
from ekiden.shared.hooks.occasions import AfterAgent, BeforeAgent
from ekiden.shared.hooks.replies import HookReply, ToolChoice
from ekiden.shared.ids import session_of
from ekiden.shared.llm.base import ModelReply, ToolSpec
from ekiden.shared.messages import Message, TextPart
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Delegated, Entry, Guarded, Hooked, Served, ServedTools, ToolFinished
from ekiden.shared.relay.leg import Leg, journal_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers.bootstrap import build
from ekiden.workers.mcp.agents import allowed_of
from ekiden.workers.mcp.toolbox import Offered
from ekiden.workers.own_tools import Servers
from ekiden.workers.rail_judge import JUDGE
from ekiden.workers.tools.base import Tool, ToolContext
from ekiden.workers.tools.builtin.asking import ask_user
from ekiden.workers.tools.builtin.state import set_state
from ekiden.workers.tools.parsing import by_schema
from tests.contract.test_approvals import Inbox
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.helped import judged
from tests.unit.workers.test_graphs import agent, edge, graph
from tests.unit.workers.world import Replies, Said, call, calls, said

Journals = dict[str, list[Entry]]

FLOW = graph(
    {"name": "ask", "ask_user": "Which one of ${task.prompt}?"},
    {"name": "note", "tool": "set_state", "args": {"values": {"which": "${ask}"}}},
    {"name": "each", "agent": "teller", "for_each": "['a', 'b']"},
    {"name": "keep", "tool": "set_state", "for_each": "['c', 'd']", "args": {"values": {"last": "${item}"}}},
    {"name": "tell", "agent": "teller"},
    edges=[edge("ask", "note"), edge("note", "each"), edge("each", "keep"), edge("keep", "tell")],
) | {"tools": ["set_state"]}
TELLER = agent("teller", tools=["set_state"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def journals_of(relay: Relay, first: str) -> Journals:
    """Run a job to its end; whoever is asked answers the same."""
    job = await relay.submit("do it", agent=first)
    async with asyncio.timeout(30):
        await relay.drain()
        for view in await relay.stores.jobs.waiting(job):
            await Inbox(relay.stores).answer(
                view.id, replace(Answer("answered", view.digest, answer="这个"), by="anna")
            )
        await relay.drain()
    found, behind = Journals(), [job]
    while behind:
        one = behind.pop(0)
        found[one] = await journal_of(relay.stores.jobs, one)
        behind += [entry.record.child for entry in found[one] if isinstance(entry.record, Delegated)]
    return found


@dataclass(frozen=True)
class Kept:
    """What a server keeps of what MCP servers offered; None: nothing."""

    stores: Stores | None

    async def served(self, digest: str) -> ServedTools | None:
        text = await self.stores.listings.kept(digest) if self.stores else None
        return ServedTools.model_validate_json(text) if text else None


def again(
    agents: list[Any],
    first: str,
    folder: Path,
    replies: Mapping[str, Sequence[Said]],
    *,
    servers: Servers | None = None,
    hooks: Sequence[Intervening] = (),
    forget: bool = False,
    **values: Any,
) -> Any:
    """Run a job, and again by what a pool of its recordings is put together of; return both runs' journals.

    ``forget``: what MCP servers offered is not kept.
    """

    async def recorded(stores: Stores) -> Journals:
        tools = [set_state, ask_user]
        relay = Relay(stores, team(*agents), Replies(replies), tools=tools, servers=servers, hooks=hooks)
        return await with_served(Kept(None if forget else stores), await journals_of(relay, first))

    async def played(stores: Stores) -> Journals:
        made = await build(load_settings(playback=folder, **values), stores)
        return await journals_of(Relay(stores, team(*agents), Replies({}), worker=made.handler), first)

    journals = on_server(recorded)
    write_recording(folder, session_of(next(iter(journals))), recording_of(journals))
    return journals, on_server(played)


def test_a_graph_of_agents_tools_questions_and_lists_goes_the_same_way_again(tmp_path: Path) -> None:
    first, second = again([FLOW, TELLER], "flow", tmp_path, {"teller": [said("told")] * 3})
    assert first_difference(decisions_of(first), decisions_of(second), 0) is None
    assert len(first) == len(second) == 9
    assert decisions_of(second)[next(iter(second))][-1].told.count("told") == 1


def test_what_a_guardrails_judge_said_is_held_against_the_threshold_of_the_settings(tmp_path: Path) -> None:
    rail = {"name": "kind", "on": "output", "prompt": "It scolds nobody.", "policy": "warn"}
    lead = agent("lead", tools=["set_state"], guardrails=[rail])
    replies: Mapping[str, Sequence[Said]] = {"lead": [said("ok")], JUDGE: [judged(0.75)]}
    runs = again([lead], "lead", tmp_path, replies, guardrails_threshold=0.9)
    found = [[one.record.status for one in next(iter(run.values())) if isinstance(one.record, Guarded)] for run in runs]
    assert found[0] != found[1], found


SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
CALENDAR = agent(
    "planner", mcp={"servers": ["calendar"]}, tools={"allow": ["mcp.calendar.*"], "deny": ["mcp.calendar.b"]}
)
ASKS = [calls(call("c", "mcp_calendar_a", who="anna")), calls(call("d", "mcp_calendar_a")), said("done")]


class Calendar:
    """An MCP server that is not asked when a job is played."""

    def unknown(self, agent: AgentDefinition) -> tuple[str, ...]:
        return ()

    async def offered_to(self, agent: AgentDefinition, leg: Leg) -> Offered:
        tools = tuple(map(self._tool, "ab"))
        return allowed_of(Offered(tools, ("the MCP server 'mail' is down",), {"calendar": self._reader()}), agent, leg)

    def _tool(self, name: str) -> Tool:
        async def run(args: Any, context: ToolContext) -> str:
            return f"{name} for {args['who']}"

        spec = ToolSpec(name=f"mcp_calendar_{name}", description=f"Tells {name}.", parameters=SCHEMA)
        return replace(_made(spec, run), full_name=f"mcp.calendar.{name}")

    def _reader(self) -> Tool:
        async def run(args: Any, context: ToolContext) -> str:
            raise AssertionError("nothing is read")

        spec = ToolSpec(name="read_mcp_resource", description="Reads.", parameters={"type": "object"})
        return replace(_made(spec, run), full_name="mcp.calendar.read_mcp_resource")


def _made(spec: ToolSpec, run: Any) -> Tool:
    return Tool(
        spec,
        by_schema(spec.name, spec.parameters),
        run,
        risk="high",
        untrusted=True,
        package="MCP server c",
        version="",
    )


def test_tools_of_mcp_servers_are_offered_again_as_they_were(tmp_path: Path) -> None:
    first, second = again([CALENDAR], "planner", tmp_path, {"planner": ASKS}, servers=Calendar())
    assert unserved(first, second) == set()
    assert first_difference(decisions_of(first), decisions_of(second), 0) is None
    [served] = [one.record for one in next(iter(first.values())) if isinstance(one.record, Served)]
    assert served.tools is not None
    assert ([tool.name for tool in served.tools.tools], [*served.tools.readers]) == (["mcp_calendar_a"], ["calendar"])
    results = [one.record.result for one in next(iter(second.values())) if isinstance(one.record, ToolFinished)]
    assert (results[0].content, results[0].is_error) == ("a for anna", False)
    assert "who" in results[1].content, "arguments are checked by the schema that was offered"


def test_where_it_is_not_known_what_servers_offered_the_other_digests_are_compared(tmp_path: Path) -> None:
    quiet = agent("planner", mcp={"servers": ["calendar"]})
    first, second = again([quiet], "planner", tmp_path, {"planner": [said("ok")]}, servers=Silent(), forget=True)
    unknown = unserved(first, second)
    assert {name for _, name in unknown} == {"planner"}
    assert first_difference(decisions_of(first, unknown), decisions_of(second, unknown), 0) is None
    found = first_difference(decisions_of(first), decisions_of(second), 0)
    assert found is not None
    assert found.digests == {"definition": True, "model": True, "messages": True, "tools": False}


class Silent(Calendar):
    """One that all its tools may be used of, and that says nothing else."""

    async def offered_to(self, agent: AgentDefinition, leg: Leg) -> Offered:
        return Offered((self._tool("a"),))


class Meddling(Intervening):
    """A hook that says something at most of what it is asked about; what it is asked it counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def intervene(self, event: Event) -> HookReply | None:
        self.asked.append(event.name)
        return await super().intervene(event)

    async def before_agent(self, event: BeforeAgent) -> HookReply | None:
        return HookReply(context="Be kind.")

    async def before_model(self, event: BeforeModel) -> HookReply | None:
        if event.place.turn == 3:
            message = Message(role="model", parts=(TextPart(text="from the hook"),))
            return HookReply(reply=ModelReply(message=message))
        return HookReply(request=replace(event.request, instructions="else"))

    async def before_tool_selection(self, event: BeforeToolSelection) -> HookReply | None:
        return HookReply(tools=ToolChoice("ANY", ("set_state",))) if event.place.turn == 1 else None

    async def after_model(self, event: AfterModel) -> HookReply | None:
        return HookReply(reply=event.reply.model_copy(update={"detail": "seen"})) if event.place.turn == 1 else None

    async def before_tool(self, event: BeforeTool) -> HookReply | None:
        blocks = event.call.id == "c"
        return HookReply(block="not so") if blocks else HookReply(args={"values": {"n": 2}}, context="Changed.")

    async def after_tool(self, event: AfterTool) -> HookReply | None:
        return HookReply(result="written", context="And more.") if event.call.id == "a" else None

    async def after_agent(self, event: AfterAgent) -> HookReply | None:
        return HookReply(answer=f"{event.answer}!")


def test_what_hooks_changed_is_changed_again_and_none_is_asked(tmp_path: Path) -> None:
    hook, lead = Meddling(), agent("lead", tools=["set_state"])
    setting = [call(one, "set_state", values={"n": 1}) for one in "abc"]
    replies: Mapping[str, Sequence[Said]] = {"lead": [calls(setting[0]), calls(*setting[1:])]}
    first, second = again([lead], "lead", tmp_path, replies, hooks=[hook])
    asked = len(hook.asked)
    hooked = [one.record for one in next(iter(first.values())) if isinstance(one.record, Hooked)]
    assert {one.at for one in hooked} >= {event.name for event in (BeforeAgent, BeforeModel, AfterTool, AfterAgent)}
    assert first_difference(decisions_of(first), decisions_of(second), 0) is None
    assert len(hook.asked) == asked
    assert decisions_of(second)[next(iter(second))][-1].told.count("from the hook!") == 1


@pytest.mark.parametrize("at", ["before_agent", "before_model", "after_model", "before_tool"])
def test_a_job_that_a_hook_ended_ends_there_again(tmp_path: Path, at: str) -> None:
    async def stop(self: Intervening, event: Event) -> HookReply:
        return HookReply(stop="enough")

    hook, lead = type("Stopping", (Intervening,), {at: stop})(), agent("lead", tools=["set_state"])
    replies: Mapping[str, Sequence[Said]] = {"lead": [calls(call("a", "set_state", values={"n": 1})), said("ok")]}
    first, second = again([lead], "lead", tmp_path, replies, hooks=[hook])
    [told] = decisions_of(first).values()
    assert "enough" in told[-1].told
    assert first_difference(decisions_of(first), decisions_of(second), 0) is None
