"""What breaks handoffs elsewhere: in both styles, on Gemini's wire, over real worker processes.

All cases share one stack. Each has agents of its own, whose names end in the case and its style.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.dispatcher.client import Client
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.embedded import attach
from ekiden.shared.records import Ended, Entry, HandedOff, ModelReplied, Noticed, Nudged, Refused, ToolFinished
from tests.doubles.gemini.server import GeminiServer, Request
from tests.doubles.gemini.wire import declarations, parts_of, text_of
from tests.e2e.program import program_in

MODEL = "gemini-3.8-flash"
STYLES = ("tools", "single")
READS = "tools: [read_file]"
MAY_RETURN = "tools: []\ntransfer_to_parent: true"
Reply = dict[str, Any]


class Case:
    """A team whose agents hand over in one style, and what its models say."""

    def __init__(self, name: str, style: str) -> None:
        self.style = style
        self.agents: dict[str, str] = {}
        self.rules: list[dict[str, Any]] = []
        self._suffix = f"{name}-{style}".replace("_", "-")

    def named(self, *roles: str) -> list[str]:
        return [f"{role}-{self._suffix}" for role in roles]

    def agent(self, name: str, *replies: Reply, to: Sequence[Any] = (), more: str = "tools: []") -> None:
        """Add an agent that says ``replies`` in order."""
        edges = [edge if isinstance(edge, dict) else {"to": edge} for edge in to]
        head = f"name: {name}\ndescription: The {name}.\nmodel: {MODEL}\ntransfer: {self.style}\n{more}"
        self.agents[name] = f"---\n{head}\nhandoffs: {json.dumps(edges)}\n---\nYou are {name}.\n"
        when = {"system": rf"You are {name}\."}
        self.rules += [{"when": when, "times": 1, "again": True, "reply": reply} for reply in replies]

    def call(self, to: str, *, spelled: str = "", namespace: str = "", **args: Any) -> dict[str, Any]:
        """A call that hands over to the agent ``to``, as models may spell it."""
        args = {"reason": "because", **args}
        if self.style == "tools":
            return {"name": namespace + (f"transfer_to_{spelled}" if spelled else transfer_tool_name(to)), "args": args}
        return {"name": f"{namespace}transfer_to_agent", "args": {"agent_name": spelled or to, **args}}


def calling(*calls: dict[str, Any], text: str = "I see.") -> Reply:
    return {"text": text, "calls": list(calls)}


def reading(path: str = "a.txt") -> dict[str, Any]:
    return {"name": "read_file", "args": {"path": path}}


def said(text: str) -> Reply:
    return {"text": text}


def same_tool_name(case: Case) -> None:
    [lead] = case.named("lead")
    kept, left_out = f"Billing Agent {case.style}", f"billing-agent-{case.style}"
    case.agent(lead, calling(case.call(kept)), to=(kept, left_out))
    case.agent(kept, said("billed"))
    case.agent(left_out, said("never"))


def chinese_names(case: Case) -> None:
    lead, fixer, translator = case.named("分诊台", "代码修复", "翻译助手")
    case.agent(lead, calling(case.call(translator, reason="请翻译")), to=(fixer, translator))
    case.agent(translator, calling(case.call(fixer, reason="请修复")), to=(fixer,))
    case.agent(fixer, said("修好了。"))


def tool_then_transfer(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, calling(reading(), case.call(helper)), to=(helper,), more=READS)
    case.agent(helper, said("helped"))


def transfer_then_tool(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, calling(case.call(helper), reading()), to=(helper,), more=READS)
    case.agent(helper, said("helped"))


def two_transfers(case: Case) -> None:
    lead, left, right = case.named("lead", "left", "right")
    case.agent(lead, calling(case.call(left), case.call(right)), said("left was enough"), to=(left, right))
    case.agent(left, calling(case.call(lead)), more=MAY_RETURN)
    case.agent(right, said("never"))


def bad_targets(case: Case) -> None:
    lead, helper, stranger = case.named("lead", "helper", "stranger")
    refused = [calling(case.call(lead)), calling(case.call("wizard"))]
    case.agent(lead, *refused, calling(case.call(helper)), calling(case.call("wizard")), said("done"), to=(helper,))
    case.agent(helper, calling(case.call(stranger)), calling(case.call(lead)), more=MAY_RETURN)
    case.agent(stranger, said("never"))


def bad_arguments(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    unreadable = {
        "finish": "MALFORMED_FUNCTION_CALL",
        "message": "Malformed function call: transfer_to_helper(reason=be",
    }
    extra = case.call(helper, reason="now", mood="good", priority=None, context={"lines": [7]})
    case.agent(lead, unreadable, calling(case.call(helper, reason=None)), calling(extra), to=(helper,))
    case.agent(helper, said("helped"))


def near_misses(case: Case) -> None:
    lead, a, b, c, d = case.named("lead", "a", "b", "c", "d")
    case.agent(lead, calling(case.call(a, namespace="default_api:")), to=(a,))
    case.agent(a, calling(case.call(b, namespace="functions.")), to=(b,))
    case.agent(b, calling(case.call(c, spelled=f"{c}-{case.style}")), to=(c,))
    case.agent(c, calling(case.call(d, spelled=d.replace("-", "_").upper())), to=(d,))
    case.agent(d, said("arrived"))


def only_said(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, said(f"I will hand this over to {helper}."), calling(case.call(helper), text=""), to=(helper,))
    case.agent(helper, said("helped"))


def other_agents_tools(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, calling(reading()), calling(case.call(helper), text="It says 42."), to=(helper,), more=READS)
    case.agent(helper, calling(reading()), said("helped without it"))


def comes_back(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, calling(case.call(helper)), said("it works"), to=({"to": helper, "return": True},))
    case.agent(helper, said("I mended it"))


def comes_back_failed(case: Case) -> None:
    lead, helper = case.named("lead", "helper")
    case.agent(lead, calling(case.call(helper)), said("then I do it myself"), to=({"to": helper, "return": True},))
    case.agent(helper, {"text": "I ca", "finish": "MAX_TOKENS"})


TEAMS = (same_tool_name, chinese_names, tool_then_transfer, transfer_then_tool, two_transfers, bad_targets,
         bad_arguments, near_misses, only_said, other_agents_tools, comes_back, comes_back_failed)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What became of a job, and what its models were asked."""

    case: Case
    entries: list[Entry]
    requests: list[Request]

    def of(self, kind: type[BaseModel]) -> list[Any]:
        return [entry.record for entry in self.entries if isinstance(entry.record, kind)]

    @property
    def chain(self) -> list[str]:
        """The roles that had control, in order."""
        return [move.context.to_agent.split("-")[0] for move in self.of(HandedOff)]

    @property
    def answer(self) -> str | None:
        [end] = self.of(Ended)
        assert isinstance(end, Ended)
        return end.answer

    def asked(self, role: str) -> list[Request]:
        """What an agent's model was asked, in order."""
        [name] = self.case.named(role)
        return [one for one in self.requests if f"You are {name}." in text_of(one.body["systemInstruction"])]


@dataclass(frozen=True)
class Stack:
    """A dispatcher and two workers that serve everybody."""

    url: str
    gemini: GeminiServer
    cases: dict[tuple[str, str], Case]

    def played(self, name: str, style: str) -> Seen:
        """Let the first agent of a case begin; every call of the job must have one response."""
        case = self.cases[name, style]
        seen = Seen(case, asyncio.run(self._told(next(iter(case.agents)))), list(self.gemini.requests))
        assert_answered_once(seen)
        return seen

    async def _told(self, agent: str) -> list[Entry]:
        async with asyncio.timeout(60), Client(self.url) as client:
            job = await client.submit("do it", agent=agent)
            await client.wait(job)
            return await client.entries(job)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    path = tmp_path_factory.mktemp("handoffs")
    cases = {(build.__name__, style): Case(build.__name__, style) for style in STYLES for build in TEAMS}
    for build in TEAMS:
        for style in STYLES:
            build(cases[build.__name__, style])
    rules = [rule for case in cases.values() for rule in case.rules]
    with program_in(path) as ekiden, attach(path / "server") as server, GeminiServer().add(rules) as gemini:
        agents = ekiden.folder / ".gemini" / "agents"
        agents.mkdir(parents=True)
        for name, text in [pair for case in cases.values() for pair in case.agents.items()]:
            (agents / f"{name}.md").write_text(text)
        (ekiden.folder / "a.txt").write_text("42\n")
        ekiden.env |= {"GEMINI_API_KEY": "test", "EKIDEN_GEMINI_BASE_URL": gemini.url, "EKIDEN_REDIS_URL": server.url}
        ekiden.start("dispatcher")
        ekiden.start("worker", "--workspace-root", ekiden.folder)
        ekiden.start("worker", "--workspace-root", ekiden.folder)
        yield Stack(server.url, gemini, cases)
        ekiden.end_all()


def assert_answered_once(seen: Seen) -> None:
    asked = [call.id for reply in seen.of(ModelReplied) for call in reply.message.calls]
    answered = [record.result.call_id for record in seen.of(ToolFinished)]
    answered += [record.call_id for record in (*seen.of(HandedOff), *seen.of(Refused)) if record.call_id]
    assert Counter(answered) == Counter(asked)


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_of_two_agents_with_the_same_tool_name_one_is_left_out_and_the_other_gets_its_jobs(
    stack: Stack, style: str
) -> None:
    seen = stack.played("same_tool_name", style)
    assert [move.context.to_agent for move in seen.of(HandedOff)][1:] == [f"Billing Agent {style}"]
    assert seen.answer == "billed"
    assert f"billing-agent-{style}" not in json.dumps(seen.asked("lead")[0].body)


def test_agents_with_chinese_names_get_what_is_theirs(stack: Stack, style: str) -> None:
    seen = stack.played("chinese_names", style)
    assert (seen.chain, seen.answer) == (["分诊台", "翻译助手", "代码修复"], "修好了。")
    assert seen.of(Noticed) == []


@pytest.mark.parametrize("name", ["tool_then_transfer", "transfer_then_tool"])
def test_the_tools_of_a_reply_run_before_its_transfer(stack: Stack, style: str, name: str) -> None:
    seen = stack.played(name, style)
    [result] = seen.of(ToolFinished)
    assert "42" in result.result.content
    assert seen.entries.index(entry_of(seen, result)) < seen.entries.index(entry_of(seen, seen.of(HandedOff)[1]))
    assert (seen.chain, seen.answer) == (["lead", "helper"], "helped")


def entry_of(seen: Seen, record: BaseModel) -> Entry:
    return next(entry for entry in seen.entries if entry.record is record)


def test_of_two_transfers_the_first_counts_and_the_other_is_never_shown_again(stack: Stack, style: str) -> None:
    seen = stack.played("two_transfers", style)
    assert (seen.chain, seen.answer) == (["lead", "left", "lead"], "left was enough")
    [other] = seen.of(ToolFinished)
    assert other.result.content == "Not executed: one transfer per turn."
    assert len(calls_in(seen.asked("lead")[1])) == 1


def calls_in(request: Request) -> list[dict[str, Any]]:
    """The calls in the history, with what came of them."""
    parts = [part for content in request.body["contents"] for part in parts_of(content)]
    return [part["functionCall"] for part in parts if "functionCall" in part]


def test_targets_that_cannot_be_are_refused_and_do_not_discourage_the_next_handoff(stack: Stack, style: str) -> None:
    seen = stack.played("bad_targets", style)
    assert seen.chain == ["lead", "helper", "lead"]
    refusals = [(record.code, record.leg) for record in seen.of(Refused)]
    assert refusals == [("SELF_HANDOFF", 1), ("UNKNOWN_AGENT", 1), ("PERMISSION_DENIED", 2), ("UNKNOWN_AGENT", 3)]
    [helper] = seen.case.named("helper")
    allowed = {"tools": f"Allowed: {transfer_tool_name(helper)} ", "single": f"Allowed as 'agent_name': '{helper}'."}
    assert all(allowed[style] in record.message for record in seen.of(Refused) if record.leg != 2)
    assert seen.answer == "done"
    assert "wizard" not in json.dumps(seen.asked("helper")[0].body)


def test_arguments_that_are_no_json_null_or_too_many_are_borne(stack: Stack, style: str) -> None:
    seen = stack.played("bad_arguments", style)
    assert [record.code for record in seen.of(Refused)] == ["BAD_ARGUMENTS"]
    context = seen.of(HandedOff)[1].context
    assert (context.reason, context.context) == ("now", '{"lines": [7]}')
    assert "good" not in json.dumps(seen.asked("helper")[0].body)
    assert seen.answer == "helped"


def test_names_that_are_nearly_right_are_understood_and_noted(stack: Stack, style: str) -> None:
    seen = stack.played("near_misses", style)
    assert (seen.chain, seen.answer) == (["lead", "a", "b", "c", "d"], "arrived")
    told = [record.text.partition(" called ")[0].split("-")[0] for record in seen.of(Noticed)]
    assert told == ["a", "b", "c"], "default_api is taken off before anybody sees it"


def test_an_agent_that_only_says_so_is_told_once_and_hands_over(stack: Stack, style: str) -> None:
    seen = stack.played("only_said", style)
    assert len(seen.of(Nudged)) == 1
    assert (seen.chain, seen.answer) == (["lead", "helper"], "helped")
    assert "I will hand this over" not in json.dumps(seen.asked("helper")[0].body)


def test_a_target_sees_no_calls_of_another_agent_and_is_told_of_those_it_makes_up(stack: Stack, style: str) -> None:
    seen = stack.played("other_agents_tools", style)
    first, *_ = seen.asked("helper")
    assert calls_in(first) == []
    assert declarations(first.body) == []
    assert "It says 42." in text_of(first.body["contents"][0])
    assert "Tool not allowed for this agent: 'read_file'" in seen.of(ToolFinished)[-1].result.content
    assert seen.answer == "helped without it"


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [("comes_back", "it works", "I mended it"), ("comes_back_failed", "then I do it myself", "had to stop")],
)
def test_control_comes_back_however_the_target_ends(
    stack: Stack, style: str, name: str, answer: str, told: str
) -> None:
    seen = stack.played(name, style)
    assert (seen.chain, seen.answer) == (["lead", "helper", "lead"], answer)
    back = seen.of(HandedOff)[-1].context
    assert told in back.returned.text
    assert told in json.dumps(seen.asked("lead")[-1].body)
    assert back.metadata.handoff_chain[1:] == tuple(seen.case.named("lead"))
