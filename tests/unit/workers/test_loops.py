"""Going round in circles: what is one, what only looks like one, and what becomes of the agent."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from ekiden.shared.conversation import Conversation
from ekiden.shared.errors import ToolError
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.loop_kinds import LOOP_KINDS
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.records import LoopDetected, ModelReplied, Record, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.loops.steps import Steps
from ekiden.workers.loops.texts import repeated_words
from ekiden.workers.tools.base import Tool, ToolContext
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, Said, What, call, calls, handing_over, said, tool_named

Made = tuple[str, str, str]
"""A call in a table: tool, argument, result; a result that begins with ``!`` is an error."""


def do(tool: str, what: str = "", result: str = "ok") -> Made:
    return tool, what, result


def edit(n: int, result: str = "edited") -> Made:
    return do("edit", f"file{n}.py: add a comment", result)


RED = do("bash", "pytest", "!exit code 1: 1 failed")
A, B, C = do("read", "a", "A"), do("read", "b", "B"), do("grep", "c", "C")


def kind_of(turns: Iterable[Sequence[Made]]) -> str | None:
    """What is found behind any of these turns, each of which makes some calls."""
    steps = Steps()
    for number, made in enumerate(turns):
        asked = [ToolCall(id=f"{number}.{n}", name=tool, args={"what": what}) for n, (tool, what, _) in enumerate(made)]
        records: list[Record] = [ModelReplied(turn=number, message=calls(*asked).message)]
        for one, (_, _, said_) in zip(asked, made, strict=True):
            result = ToolResult(call_id=one.id, name=one.name, content=said_.lstrip("!"), is_error=said_[:1] == "!")
            records.append(ToolFinished(result=result))
        steps.add("solo", Conversation(records).turns[-1])
        if (found := steps.repetition(LOOP_KINDS)) is not None:
            return found.kind
    return None


LOOPS: dict[str, tuple[str, Iterable[Sequence[Made]]]] = {
    "the same call five times": ("calls", [[A]] * 5),
    "the same two calls in each turn, in any order": ("calls", [[A, B], [B, A], [A, B], [B, A], [A, B]]),
    "one after the other": ("cycles", [[A], [B]] * 3),
    "three in turn": ("cycles", [[A], [B], [C]] * 3),
    "five in turn": ("cycles", [[A], [A], [B], [A], [C]] * 3),
    "an edit and its undoing, with the same failing tests": (
        "cycles",
        [[do("edit", "+1")], [RED], [do("edit", "-1")], [RED]] * 3,
    ),
    "something new first": ("calls", [[edit(n)] for n in range(9)] + [[A]] * 5),
    "the same error whatever is tried": ("errors", [[do("fetch", f"url {n}", "!no network")] for n in range(5)]),
    "the same error, with looks at what is known in between": (
        "errors",
        [[A], *([do("edit", f"try {n}", "!not found")] if n % 2 else [A] for n in range(10))],
    ),
}
NO_LOOPS: dict[str, Iterable[Sequence[Made]]] = {
    "the same call four times": [[A]] * 4,
    "two in turn, twice": [[A], [B]] * 2,
    "polling, with something new each time": [[do("bash", "status", f"{n} % done")] for n in range(0, 100, 5)],
    "tests after edits": [step for n in range(12) for step in ([RED], [edit(n)])],
    "12 edits of 12 files": [[edit(n)] for n in range(12)],
    "comments added file by file": [s for n in range(12) for s in ([do("read", f"file{n}", f"text {n}")], [edit(n)])],
    "the same file read again after each edit": [
        step for n in range(12) for step in ([do("read", "a", f"version {n}")], [do("edit", f"a, line {n}")])
    ],
    "twelve calls that fail alike in one turn": [[do("fetch", f"url {n}", "!no network") for n in range(12)]],
    "errors between things that work": [s for n in range(9) for s in ([do("run", str(n), "!exit code 1")], [edit(n)])],
    "the same call beside something new": [[A, edit(n)] for n in range(9)],
}


@pytest.mark.parametrize("name", LOOPS)
def test_is_a_loop(name: str) -> None:
    kind, turns = LOOPS[name]
    assert kind_of(turns) == kind


@pytest.mark.parametrize("name", NO_LOOPS)
def test_is_no_loop(name: str) -> None:
    assert kind_of(NO_LOOPS[name]) is None


SENTENCE = "I will now look at the file once more to be sure of it. "
ROWS = "\n".join(f"| row {n:02} | the same words in each of the many rows of a table |" for n in range(20))
CODE = "    assert response.status_code == 200, response.text_of_the_body\n"


REPEATED = {
    "a sentence": SENTENCE * 12,
    "within other words": f"Let me see. {SENTENCE * 12}Done.",
    "Chinese": "我再看一遍这个文件,确认没有问题之后再继续。" * 30,
    "a syllable": "ha " * 300,
    "behind code": f"```\n{CODE}```\n{SENTENCE * 12}",
    "line by line": f"{SENTENCE}\n" * 12,
}
NOT_REPEATED = {
    "eight times": SENTENCE * 8,
    "far apart": " ".join(SENTENCE + " ".join(map(str, range(n * 100, n * 100 + 99))) for n in range(30)),
    "table": ROWS,
    "code": f"```\n{CODE * 20}```",
    "indented code": CODE * 20,
    "list": f"- {SENTENCE}\n" * 20,
    "numbers": "\n".join(f"{n}. {SENTENCE}" for n in range(20)),
    "Chinese list": "\n".join(
        f"{n}、检查每一个文件的内容,然后运行全部测试,最后把结果写进报告里面去" for n in range(30)
    ),
    "headings": "\n".join(["# 一样的标题,每一节都是这样写的,因为这是一个模板", "=" * 80] * 20),
    "a rule": "-" * 2_000,
    "JSON": json.dumps([{"status": "ok", "error": None, "retries": 0, "owner of it": "nobody at all"}] * 20),
}


@pytest.mark.parametrize("name", REPEATED)
def test_words_that_come_again_and_again_are_a_loop(name: str) -> None:
    assert repeated_words(REPEATED[name])


@pytest.mark.parametrize("name", NOT_REPEATED)
def test_structure_that_repeats_is_no_loop(name: str) -> None:
    assert not repeated_words(NOT_REPEATED[name])


SOLO = {"name": "solo", "limits": {"grace_seconds": 0}}


def solo(replies: Sequence[Said], has: Iterable[Tool] = (), **front: Any) -> tuple[Story, Replies]:
    """Run a job of one agent."""
    model = Replies({"solo": replies})

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, team({**SOLO, **front}), model, tools=has).told("do it", agent="solo")

    return on_server(scenario), model


def looks(count: int, first: int = 0) -> list[ModelReply]:
    """The same call, ``count`` times."""
    return [calls(call(f"c{first + n}", "look", what="a")) for n in range(count)]


LOOK = tool_named("look", read_only=True)


def test_the_first_loop_is_told_to_the_model_behind_the_results() -> None:
    story, model = solo([*looks(5), said("I have seen it")], [LOOK])
    assert (story.view.status, story.view.result) == ("done", "I have seen it")
    [loop] = story.of(LoopDetected)
    assert "the same call, with the same result, 5 times in a row: look" in loop.text
    roles = [message.role for message in model.requests[-1].messages]
    assert (roles[-2:], model.requests[-1].messages[-1].text) == (["tool", "user"], loop.text)


def test_the_second_loop_ends_the_leg_and_says_how_to_switch_the_check_off() -> None:
    story, model = solo([*looks(5), calls(call("new", "look", what="b")), *looks(5, 5)], [LOOK])
    assert (story.view.status, story.view.reason) == ("failed", "LOOP")
    assert len(model.requests) == 11
    assert "agent 'solo' goes round in circles" in str(story.end.error)
    assert "loops: {calls: false}" in str(story.end.error)


def test_a_tool_that_fails_in_the_same_way_is_told_as_an_error() -> None:
    async def fail(args: What, context: ToolContext) -> str:
        raise ToolError("no network")

    tries = [calls(call(f"c{n}", "fetch", what=str(n))) for n in range(5)]
    story, _ = solo([*tries, said("I cannot reach it")], [tool_named("fetch", fail)])
    assert [record.kind for record in story.of(LoopDetected)] == ["errors"]
    assert story.view.status == "done"


def test_an_answer_that_repeats_itself_is_none_and_a_second_one_fails() -> None:
    again = said(SENTENCE * 12, finish="max_tokens")
    assert solo([again, said("42")])[0].view.result == "42"
    story, _ = solo([again, again])
    assert (story.view.status, story.view.reason) == ("failed", "LOOP")


@pytest.mark.parametrize("loops", [False, {"calls": False}, {"calls": "off", "errors": True}])
def test_an_agents_file_switches_checks_off(loops: Any) -> None:
    story, _ = solo([*looks(12), said("ok")], [LOOK], loops=loops)
    assert (story.view.result, story.of(LoopDetected)) == ("ok", [])


TEAM = (
    {"name": "lead", "handoffs": ["fixer"]},
    {"name": "fixer", "handoffs": ["lead"]},
)


def test_what_an_agent_did_before_a_handoff_counts_when_control_is_back() -> None:
    fixer = [calls(handing_over(f"f{n}", "lead", reason=f"look for the {n}th time")) for n in range(3)]
    lead = [*looks(3), calls(handing_over("h0", "fixer")), *looks(2, 3), said("seen")]

    async def scenario(stores: Stores) -> Story:
        model = Replies({"lead": lead, "fixer": fixer})
        return await Relay(stores, team(*TEAM), model, tools=[LOOK], cycles="limit:9").told("x", agent="lead")

    story = on_server(scenario)
    assert story.chain == ["lead", "fixer", "lead"]
    assert [(record.leg, record.kind) for record in story.of(LoopDetected)] == [(3, "calls")]
    assert story.view.result == "seen"


def test_two_agents_that_send_each_other_the_same_work_are_a_loop() -> None:
    def turns(name: str, to: str) -> list[ModelReply]:
        made = [
            [calls(call(f"{name}{n}", "look", what=name)), calls(handing_over(f"{name}h{n}", to, reason=f"try {n}"))]
            for n in range(9)
        ]
        return [reply for pair in made for reply in pair]

    async def scenario(stores: Stores) -> Story:
        model = Replies({"lead": turns("lead", "fixer"), "fixer": turns("fixer", "lead")})
        front = [{**agent, "limits": {"max_handoff_depth": 50, "grace_seconds": 0}} for agent in TEAM]
        return await Relay(stores, team(*front), model, tools=[LOOK], cycles="limit:40").told("x", agent="lead")

    story = on_server(scenario)
    assert (story.view.status, story.view.reason) == ("failed", "LOOP")
    assert [record.kind for record in story.of(LoopDetected)] == ["cycles"]


def test_a_leg_that_is_cut_off_anywhere_ends_by_the_same_turn() -> None:
    """A worker dies behind any record of a leg that is told once, and fails the next time."""
    replies = [*looks(5), *looks(5, 5)]
    records = [record for record in solo(replies, [LOOK])[0].records if record.leg == 1][1:-1]

    async def resumed(stores: Stores, upto: int) -> Story:
        relay = Relay(stores, team(SOLO), Replies({"solo": replies}), tools=[LOOK])
        job = await relay.submit("x", agent="solo")
        await relay.step()
        await relay.lose(job, records[:upto])
        await relay.drain()
        return await relay.story(job)

    told = next(at for at, record in enumerate(records) if isinstance(record, LoopDetected))
    for cut in (2, told - 1, told, told + 1, told + 2, len(records) - 1):
        story = on_server(partial(resumed, upto=cut))
        assert (story.view.reason, len(story.of(LoopDetected)), len(story.of(ModelReplied))) == ("LOOP", 1, 10), cut
