"""Hooks that interfere with a leg: they change or block its steps, which is recorded, and no rule gets wider by it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.requested_rights import Names, rights_wanted, without_rights
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.hooks.events import BeforeModel, BeforeTool, Event
from ekiden.shared.hooks.intervening import Intervening
from ekiden.shared.hooks.observers import Observers
from ekiden.shared.hooks.occasions import Notification, SessionEnd
from ekiden.shared.hooks.replies import HookReply, ToolChoice
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.messages import ToolCall, user_message
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.records import (
    ApprovalAsked,
    Ended,
    Entry,
    HandedOff,
    Hooked,
    LegSuspended,
    ModelReplied,
    Noticed,
    Record,
    Refused,
    Routed,
    ToolStarted,
)
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import ASKS_NOBODY, Relay, Story, on_server, team, text_of
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named

Word = HookReply | Callable[[Any], Any] | None


class Saying(Intervening):
    """A hook that says one thing, at one event, and counts how often it was asked."""

    def __init__(
        self, at: str, word: Word, *, name: str = "guard", required: bool = False, parallel: bool = False
    ) -> None:
        self.name, self.required, self.parallel = name, required, parallel
        self.timeout_s = 0.05 if word is hanging else 60.0
        self.asked: list[Event] = []
        self._at, self._word = at, word

    def intervenes_at(self, event: str) -> bool:
        return event == self._at

    async def intervene(self, event: Event) -> HookReply | None:
        self.asked.append(event)
        word = self._word(event) if callable(self._word) else self._word
        return await word if isinstance(word, Awaitable) else word


async def hanging(event: Event) -> HookReply:
    await asyncio.Event().wait()
    raise AssertionError("it never comes back")


def crashing(event: Event) -> HookReply:
    raise SystemExit("gone")


def lying(event: Event) -> Any:
    return {"decision": "allow"}


class Forbidden:
    """A condition of a rule."""

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        return use.args.get("what") == "forbidden"


def put(**args: Any) -> ToolCall:
    return call("c1", "put", **args)


def story_of(
    *hooks: Intervening,
    turns: list[ModelReply] | None = None,
    policy: Policy = ASKS_NOBODY,
    lost: list[Record] | None = None,
    ran: list[str] | None = None,
    requests: list[Any] | None = None,
) -> Story:
    """What becomes of a job whose agent calls ``put`` once and then answers; ``lost``: what a lost worker recorded."""

    async def scenario(stores: Stores) -> Story:
        model = Replies({"a": turns or [calls(put(what="paint"), text="I will"), said("done")]})
        tools = [tool_named("put", ran=ran), tool_named("look", read_only=True), tool_named("bash")]
        relay = Relay(stores, team({"name": "a"}), model, tools=tools, hooks=hooks, policy=policy)
        job = await relay.submit("go", agent="a")
        await relay.step()
        if lost:
            await relay.lose(job, lost)
        async with asyncio.timeout(30):
            await relay.drain()
        if requests is not None:
            requests.extend(model.requests)
        return await relay.story(job)

    return on_server(scenario)


def changing(**args: Any) -> Callable[[BeforeTool], HookReply]:
    return lambda event: HookReply(args={**event.call.args, **args})


def test_changed_arguments_run_are_recorded_and_told_to_the_model() -> None:
    hook = Saying("BeforeTool", changing(what="粉刷"))
    story = story_of(hook)
    assert story.results["c1"] == 'A hook let this run with other arguments than yours: {"what": "粉刷"}\n\nput(粉刷)'
    [hooked] = story.of(Hooked)
    assert (hooked.at, hooked.by, hooked.call_id, hooked.changed) == ("BeforeTool", ("guard",), "c1", ("args",))
    assert (hooked.value, story.of(ModelReplied)[0].message.calls[0].args) == ({"what": "粉刷"}, {"what": "paint"})
    assert hook.asked[0].place.agent == "a"


def test_a_blocked_call_does_not_run_and_nobody_else_is_asked() -> None:
    ran: list[str] = []
    later = Saying("BeforeTool", None)
    story = story_of(Saying("BeforeTool", HookReply(block="not on Friday")), later, ran=ran)
    assert story.results["c1"] == "Tool execution blocked by the hook 'guard': not on Friday"
    assert (ran, later.asked, story.end.answer) == ([], [], "done")


@pytest.mark.parametrize(
    ("args", "told"),
    [({"what": 5}, "what"), ({"what": "forbidden"}, "no forbidden things")],
)
def test_changed_arguments_are_checked_and_decided_on_like_the_models(args: dict[str, Any], told: str) -> None:
    ran: list[str] = []
    rule = Rule("deny", "test", "rule 1", ("put",), conditions=(Forbidden(),), reason="no forbidden things")
    story = story_of(
        Saying("BeforeTool", lambda _: HookReply(args=args)), policy=replace(ASKS_NOBODY, rules=(rule,)), ran=ran
    )
    assert told in story.results["c1"]
    assert ran == []


def test_hooks_that_follow_each_other_see_what_was_changed_and_those_side_by_side_do_not() -> None:
    first, second = (
        Saying("BeforeTool", changing(what="1"), name="x"),
        Saying("BeforeTool", changing(what="2"), name="y"),
    )
    assert story_of(first, second).of(Hooked)[0].value == {"what": "2"}
    assert second.asked[0].call.args == {"what": "1"}  # type: ignore[attr-defined]  # a BeforeTool
    beside = [Saying("BeforeTool", changing(**{key: key}), name=key, parallel=True) for key in ("what", "z")]
    [hooked] = story_of(*beside).of(Hooked)
    assert (hooked.value, hooked.by) == ({"what": "what", "z": "z"}, ("what", "z"))


def test_whoever_comes_later_sees_what_another_owners_hook_has_changed_also_side_by_side() -> None:
    theirs = Saying("BeforeTool", changing(what="git push"), name="theirs", parallel=True)
    mine = Saying("BeforeTool", None, name="mine", parallel=True)
    theirs.owner, mine.owner = "project", "user"
    story_of(theirs, mine)
    assert mine.asked[0].call.args == {"what": "git push"}  # type: ignore[attr-defined]  # a BeforeTool


def test_a_result_that_a_hook_makes_too_long_is_cut_and_what_it_changed_stays_hidden() -> None:
    story = story_of(Saying("AfterTool", HookReply(result="*" * 100_001)))
    assert story.results["c1"].startswith("*")
    assert "paint" not in story.results["c1"]


def test_a_call_that_a_hook_wants_asked_about_waits_for_a_person() -> None:
    story = story_of(Saying("BeforeTool", HookReply(ask="it costs money")))
    [asked] = story.of(ApprovalAsked)
    assert (asked.tool, asked.rule, story.of(LegSuspended)[-1].cause) == ("put", "hooks", "approval")
    assert asked.reason == "the hook 'guard': it costs money"


@pytest.mark.parametrize(
    ("word", "result"),
    [
        (HookReply(result="****"), "****"),
        (HookReply(context="see docs"), "put(paint)\n\nsee docs"),
        (HookReply(block="it is secret"), "The result is withheld by the hook 'guard': it is secret"),
    ],
)
def test_a_result_is_recorded_as_hooks_want_it(word: HookReply, result: str) -> None:
    story = story_of(Saying("AfterTool", word))
    assert (story.results["c1"], story.of(Hooked)[0].at) == (result, "AfterTool")
    assert "paint" not in story.of(Hooked)[0].model_dump_json()


def with_more(event: BeforeModel) -> HookReply:
    told = replace(
        event.request, instructions="Be brief.", messages=(*event.request.messages[:-1], user_message("stop"))
    )
    return HookReply(request=told if event.place.turn == 1 else None)


def test_a_changed_request_is_asked_and_recorded_by_what_is_another_one() -> None:
    requests: list[Any] = []
    story = story_of(Saying("BeforeModel", with_more), requests=requests)
    assert (requests[0].instructions, requests[0].messages[-1].text) == ("Be brief.", "stop")
    assert requests[1].messages[0].text != "stop"
    [hooked] = story.of(Hooked)
    assert hooked.turn == 1
    assert (hooked.value["instructions"], hooked.value["messages"]["kept"]) == ("Be brief.", 0)


def test_a_reply_in_the_models_place_is_recorded_as_the_hooks() -> None:
    requests: list[Any] = []
    story = story_of(Saying("BeforeModel", HookReply(reply=said("from the cache"))), requests=requests)
    assert (requests, story.end.answer, story.of(ModelReplied)[0].model) == ([], "from the cache", "hook guard")


def test_a_changed_reply_is_the_one_that_counts() -> None:
    story = story_of(Saying("AfterModel", HookReply(reply=said("better"))))
    assert (story.end.answer, story.results, story.of(Hooked)[0].changed) == ("better", {}, ("reply",))


@pytest.mark.parametrize(
    ("choice", "offered", "result"),
    [
        (ToolChoice(names=("look",)), ["look"], "Not executed: the hook 'guard' left 'put' out of this turn's tools."),
        (ToolChoice("NONE", ("look",)), [], "Not executed: the hook 'guard' left 'put' out of this turn's tools."),
        (ToolChoice("ANY"), ["bash", "look", "put"], "put(paint)"),
    ],
)
def test_tools_that_hooks_have_not_chosen_are_neither_offered_nor_run(
    choice: ToolChoice, offered: list[str], result: str
) -> None:
    requests: list[Any] = []
    story = story_of(Saying("BeforeToolSelection", HookReply(tools=choice)), requests=requests)
    assert [tool.name for tool in requests[0].tools] == offered
    assert requests[0].forced_tools == (("bash", "look", "put") if choice.mode == "ANY" else ())
    assert story.results["c1"] == result


def test_choices_of_several_hooks_unite_and_none_wins() -> None:
    one, other = ToolChoice("ANY", ("a",)), ToolChoice("AUTO", ("b", "a"))
    assert one.joined(other) == ToolChoice("ANY", ("a", "b"))
    assert one.joined(ToolChoice("NONE")) == ToolChoice("NONE", ("a",))


EVENTS = [
    *("BeforeTool", "AfterTool", "BeforeToolSelection", "BeforeModel", "AfterModel"),
    *("SessionStart", "BeforeRoute", "BeforeAgent", "AfterAgent"),
]
"""Those that are asked at in a job without a handoff."""


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    ("word", "told"),
    [
        (hanging, "no answer within 0.05 s"),
        (crashing, "SystemExit: gone"),
        (lying, "returned the type 'dict'"),
        (lambda _: HookReply(result=5), "'result' of a HookReply cannot be of the type 'int'"),  # type: ignore[arg-type]
        (lambda _: HookReply(result="x", tools=ToolChoice()), "means nothing at"),
    ],
)
def test_a_hook_that_fails_is_reported_once_and_passed_over(event: str, word: Word, told: str) -> None:
    story = story_of(Saying(event, word))
    [noticed] = [record.text for record in story.of(Noticed) if "hook" in record.text]
    assert told in noticed
    assert noticed.startswith(f"the hook 'guard' failed at {event} (")
    assert (story.end.answer, story.results["c1"], story.of(Hooked)) == ("done", "put(paint)", [])


NOBODY_IS_ASKED_AT = ["BeforeModel", "AfterModel", "BeforeRoute", "BeforeAgent", "AfterTool", "AfterAgent"]


@pytest.mark.parametrize("event", NOBODY_IS_ASKED_AT)
@pytest.mark.parametrize("word", [HookReply(ask="sure?"), HookReply(ask="sure?", tools=ToolChoice())])
def test_where_nobody_can_be_asked_a_hook_that_wants_it_blocks(event: str, word: HookReply) -> None:
    story = story_of(Saying(event, word))
    said = (story.end.error or "", story.results.get("c1", ""), *(one.block for one in story.of(Hooked)))
    assert any("sure? (a person would have to be asked, and here nobody is)" in one for one in said)
    told = "guard: 'tools' means nothing at" in " ".join(one.text for one in story.of(Noticed))
    assert told is bool(word.tools)


def test_where_nothing_can_be_blocked_to_want_a_person_asked_is_a_fault() -> None:
    for event in ("SessionStart", "BeforeToolSelection"):
        [noticed] = story_of(Saying(event, HookReply(ask="sure?"))).of(Noticed)
        assert "'ask' means nothing at" in noticed.text


@pytest.mark.parametrize("word", [HookReply(block="no", result="x"), HookReply(ask="sure?", result="x")])
def test_a_word_that_means_nothing_does_not_undo_one_against_a_call(word: HookReply) -> None:
    story = story_of(Saying("BeforeTool", word))
    assert not story.of(ToolStarted)
    assert "'result' means nothing at BeforeTool" in story.of(Noticed)[0].text


@pytest.mark.parametrize("event", EVENTS)
def test_a_leg_fails_with_a_hook_that_is_required(event: str) -> None:
    story = story_of(Saying(event, crashing, required=True))
    end = story.end
    assert story.results.keys() <= {"c1"}
    assert (end.status, end.reason) == ("failed", "ERROR")
    assert "it is required: mend it, or take 'required' from it" in str(end.error)


@pytest.mark.parametrize("event", [one for one in EVENTS if one != "BeforeToolSelection"])
def test_a_hook_that_stops_ends_the_job_with_its_reason(event: str) -> None:
    end = story_of(Saying(event, HookReply(stop="the budget is spent"))).end
    assert (end.status, end.reason) == ("failed", "DENIED")
    what = "refused the request" if event == "BeforeRoute" else f"ended the job at {event}"
    assert end.error == f"the hook 'guard' {what}: the budget is spent"


@pytest.mark.parametrize(
    ("event", "what"),
    [
        ("BeforeModel", "blocked the model's turn at BeforeModel"),
        ("AfterModel", "blocked the model's turn at AfterModel"),
        ("BeforeAgent", "blocked the agent at BeforeAgent"),
        ("BeforeRoute", "refused the request"),
    ],
)
def test_what_is_blocked_before_anything_can_go_on_ends_the_job(event: str, what: str) -> None:
    end = story_of(Saying(event, HookReply(block="no"))).end
    assert (end.reason, end.error) == ("DENIED", f"the hook 'guard' {what}: no")


UNFIT: list[tuple[str, Word]] = [
    ("BeforeModel", lambda event: HookReply(request=replace(event.request, model="dearer"))),
    ("BeforeModel", lambda event: HookReply(request=replace(event.request, tools=()))),
    ("BeforeModel", lambda event: HookReply(request=replace(event.request, messages=()))),
    ("BeforeModel", lambda event: HookReply(request=replace(event.request, messages=event.request.messages[:-1]))),
    ("AfterModel", lambda event: HookReply(reply=calls(call("x", "look"), call("x", "look")))),
]


@pytest.mark.parametrize(("event", "word"), UNFIT)
def test_what_no_model_could_be_asked_or_reply_is_a_fault_of_the_hook(event: str, word: Word) -> None:
    story = story_of(Saying(event, word))
    assert story.end.answer == "done"
    assert any(f"failed at {event}" in record.text for record in story.of(Noticed))


def test_a_leg_that_goes_on_elsewhere_does_what_hooks_said_and_asks_nobody_again() -> None:
    reply = ModelReplied(leg=1, turn=1, message=calls(put(what="paint")).message)
    changed = Hooked(
        leg=1, turn=1, at="BeforeTool", by=("guard",), call_id="c1", changed=("args",), value={"what": "red"}
    )
    hook = Saying("BeforeTool", changing(what="blue"))
    story = story_of(hook, lost=[reply, changed])
    assert (hook.asked, story.results["c1"].endswith("put(red)"), story.end.answer) == ([], True, "done")
    blocked = changed.model_copy(update={"changed": (), "value": None, "block": "no"})
    assert story_of(lost=[reply, blocked]).results["c1"].endswith("blocked by the hook 'guard': no")


def test_a_request_that_was_changed_before_its_worker_was_lost_is_asked_like_that() -> None:
    requests: list[Any] = []
    hook = Saying("BeforeModel", None)
    value = {"instructions": "Be brief.", "temperature": 0.5}
    changed = Hooked(leg=1, turn=1, at="BeforeModel", by=("guard",), changed=("request",), value=value)
    chosen = Hooked(leg=1, turn=1, at="BeforeToolSelection", by=("g",), changed=("tools",), value={"mode": "NONE"})
    story_of(hook, lost=[chosen, changed], turns=[said("done")], requests=requests)
    assert (requests[0].instructions, requests[0].temperature, requests[0].tools) == ("Be brief.", 0.5, ())
    assert hook.asked == []


def test_the_hook_of_the_documents_does_what_they_say() -> None:
    page = (Path(__file__).parents[3] / "docs/hooks.md").read_text(encoding="utf-8")
    made: dict[str, Any] = {"__name__": "my_hooks"}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], made)
    turns = [calls(put(what="hunter2"), call("c2", "bash", what="x", command="git push")), said("done")]
    story = story_of(made["Guard"](), turns=turns)
    assert story.results["c1"] == "put(****)"
    assert story.results["c2"] == "Tool execution blocked by the hook 'guard': nothing is pushed from here"


@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent"])
def test_what_is_told_to_an_agent_that_begins_is_among_its_instructions_in_all_its_turns(event: str) -> None:
    requests: list[Any] = []
    hook = Saying(event, HookReply(context="The house style is 简体."))
    story_of(hook, requests=requests)
    assert [request.instructions.endswith("\n\nThe house style is 简体.") for request in requests] == [True, True]
    assert len(hook.asked) == 1
    begun = Hooked(leg=1, turn=1, at=event, by=("guard",), context="Be kind.")
    again: list[Any] = []
    story_of(asked := Saying(event, None), lost=[begun], requests=again)
    assert (asked.asked, again[0].instructions.endswith("Be kind.")) == ([], True)


def test_an_answer_is_given_as_hooks_want_it() -> None:
    story = story_of(Saying("AfterAgent", lambda event: HookReply(answer=event.answer.upper())))
    assert (story.end.answer, story.of(Hooked)[-1].value) == ("DONE", "DONE")


def test_an_agent_whose_answer_is_blocked_goes_on_and_is_told_why() -> None:
    hook = Saying("AfterAgent", lambda event: None if event.is_retry else HookReply(block="run the tests first"))
    requests: list[Any] = []
    story = story_of(hook, turns=[said("done"), said("done, and tested")], requests=requests)
    assert story.end.answer == "done, and tested"
    assert requests[1].messages[-1].text == "run the tests first"
    assert [event.is_retry for event in hook.asked] == [False, True]  # type: ignore[attr-defined]  # AfterAgent


def handed_over(*hooks: Intervening, when: str = "manual") -> tuple[Story, Replies]:
    """What becomes of a job whose first agent hands over to ``writer``, unless it is kept from that."""

    async def scenario(stores: Stores) -> tuple[Story, Replies]:
        agents = team({"name": "a", "handoffs": [{"to": "writer", "when": when}]}, {"name": "writer"})
        moves = [calls(handing_over("t1", "writer"))] if when == "manual" else []
        model = Replies({"a": [*moves, said("by myself")], "writer": [said("written")]})
        return await Relay(stores, agents, model, hooks=hooks).told("go", agent="a"), model

    return on_server(scenario)


def test_a_handoff_that_hooks_block_is_not_made_and_one_that_they_change_is_made_so() -> None:
    hook = Saying("BeforeHandoff", HookReply(block="he is away"))
    story, _ = handed_over(hook)
    assert (story.chain, story.end.answer) == (["a"], "by myself")
    assert story.results["t1"] == "Tool execution blocked by the hook 'guard': he is away"
    assert hook.asked[0].to == "writer"  # type: ignore[attr-defined]  # a BeforeHandoff
    story, _ = handed_over(Saying("BeforeHandoff", HookReply(args={"reason": "as the hook says"})))
    assert (story.chain, story.of(HandedOff)[-1].context.reason) == (["a", "writer"], "as the hook says")


def test_a_call_of_another_agent_is_asked_about_like_a_tools_and_so_is_its_result() -> None:
    async def scenario(stores: Stores) -> tuple[Story, Replies]:
        before = Saying("BeforeTool", lambda event: HookReply(args={"objective": "look twice"}))
        after = Saying("AfterTool", lambda event: HookReply(result=f"({event.result.content.split()[0]})"))
        turns = [calls(call("d1", "delegate_to_scout", objective="look")), said("done")]
        agents = team({"name": "a", "subagents": ["scout"]}, {"name": "scout"})
        model = Replies({"a": turns, "scout": [said("found it")]})
        return await Relay(stores, agents, model, hooks=[before, after]).told("go", agent="a"), model

    story, model = on_server(scenario)
    assert "look twice" in text_of(model.asked("scout")[0].messages)
    told = 'A hook let this run with other arguments than yours: {"objective": "look twice"}\n\n('
    assert story.results["d1"].startswith(told)
    assert [record.at for record in story.of(Hooked)] == ["BeforeTool", "AfterTool"]


def test_an_automatic_handoff_can_be_blocked_and_not_changed() -> None:
    story, _ = handed_over(Saying("BeforeHandoff", HookReply(block="not now")), when="auto")
    assert (story.chain, story.end.answer, story.codes) == (["a"], "by myself", ["HOOK_BLOCKED"])
    story, _ = handed_over(Saying("BeforeHandoff", HookReply(args={})), when="auto")
    assert story.chain == ["a", "writer"]
    assert "'args' means nothing at BeforeHandoff: there are block, note, stop" in story.of(Noticed)[0].text


def test_a_hook_that_wants_a_person_asked_about_an_automatic_handoff_blocks_it() -> None:
    story, _ = handed_over(Saying("BeforeHandoff", HookReply(ask="is this right?", args={})), when="auto")
    assert (story.chain, story.end.answer, story.codes) == (["a"], "by myself", ["HOOK_BLOCKED"])
    why = "the hook 'guard': is this right? (a person would have to be asked, and here nobody is)"
    assert [one.message for one in story.of(Refused)] == [why]


def test_after_a_handoff_the_agent_that_has_control_is_told() -> None:
    _, model = handed_over(
        Saying("AfterHandoff", lambda event: HookReply(context=f"You come after {event.came_from}."))
    )
    assert model.asked("writer")[0].instructions.endswith("You come after a.")
    assert "You come after" not in model.asked("a")[0].instructions


def test_a_hook_says_who_gets_a_request() -> None:
    async def scenario(stores: Stores) -> Story:
        hook = Saying("BeforeRoute", lambda event: HookReply(agent="writer") if "write" in event.prompt else None)
        model = Replies({"a": [said("no")], "writer": [said("written")]})
        return await Relay(stores, team({"name": "a"}, {"name": "writer"}), model, hooks=[hook]).told("write it")

    story = on_server(scenario)
    [routed] = story.of(Routed)
    assert (story.end.answer, routed.agent, routed.stage) == ("written", "writer", "hook")
    assert routed.reason == "chosen by the hook 'guard'"
    unknown = story_of(Saying("BeforeRoute", HookReply(agent="nobody")))
    assert unknown.end.answer == "done"
    assert "there is no agent 'nobody'" in unknown.of(Noticed)[0].text


def test_what_nothing_waits_for_is_told_afterwards() -> None:
    ended, asked = Saying("SessionEnd", HookReply(note="heard")), Saying("Notification", crashing)
    observers = Observers(HookAsking([ended, asked]))
    view = ApprovalView("s.1:1", "s.1", 1, "a", "d", "c", "bash", {}, "f")
    observers.approval_asked(view)
    for job in ("abcdefghij234567.1", "abcdefghij234567.1.1"):
        observers.job_ended(
            job, [], [Entry(9, 0, Ended(leg=1, status="done", reason="GOAL", answer="修"))], in_leg=True
        )
    observers.close()
    [end], [told] = ended.asked, asked.asked
    assert isinstance(end, SessionEnd)
    assert (end.status, end.answer, end.place.session) == ("done", "修", "abcdefghij234567")
    assert isinstance(told, Notification)
    assert (told.kind, told.details["tool"]) == ("ToolPermission", "bash")
    assert observers.hears("job_ended")
    assert not Observers(HookAsking()).hears("job_ended")


def guarded(command: str, **more: Any) -> Story:
    """What becomes of a job whose agent's file has this command look at ``put``."""

    async def scenario(stores: Stores) -> Story:
        agent = {"name": "a", "hooks": {"BeforeTool": [{"matcher": "put", "command": command, **more}]}}
        model = Replies({"a": [calls(put(what="paint")), said("done")]})
        return await Relay(stores, team(agent), model, tools=[tool_named("put")]).told("go", agent="a")

    return on_server(scenario)


def test_the_command_of_an_agents_file_looks_at_its_calls_and_is_required_unless_the_file_says_otherwise() -> None:
    assert guarded("echo 'not today' >&2; exit 2", name="guard").results["c1"].endswith("'guard': not today")
    assert guarded("pwd >&2; exit 2").results["c1"].endswith(": /"), "in no folder that somebody may have written"
    assert "it ended with 1" in str(guarded("exit 1").end.error)
    assert guarded("exit 1", required=False).end.answer == "done"


def test_an_agent_that_nobody_trusts_has_no_hooks() -> None:
    fields = {"name": "a", "description": "d", "hooks": {"BeforeTool": [{"command": "touch /tmp/x"}]}}
    agent = definition_from(fields, "You work.")
    [right] = [right for right in rights_wanted(agent, Names([])) if "hooks" in right.shown]
    assert "touch /tmp/x" in right.shown
    assert without_rights(agent, Names([])).extra == {}
