"""Calls that a person is to approve: asked once, run once, as they were looked at, however often the worker changes."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ekiden.shared.approvals import Answer, ApprovalView, digest_of
from ekiden.shared.conversation import Conversation
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.policy.decision import Decision
from ekiden.shared.records import ApprovalAsked, Decided, LegSuspended, ModelReplied, ToolStarted
from ekiden.shared.relay.leg import Leg, entries_behind
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.approvals import CHANGED, WORKER_LOST, Approvals
from ekiden.workers.asking import Asking
from ekiden.workers.calls.questions import NOBODY_THERE, UNANSWERED
from ekiden.workers.calls.tools import OUTCOME_UNKNOWN
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.asking import ask_user
from tests.contract.relay_world import claimed
from tests.contract.test_approvals import Inbox
from tests.scenarios.relay import Relay, Story, on_server, team, text_of
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named

CONFIRMED = {"confirmation": {"require": ["write", "put"]}}
TWO = calls(call("w1", "write", what="a"), call("l1", "look"), call("w2", "write", what="b"))


class Stage:
    """A job of one agent, whose calls of ``write`` and ``put`` a person is to approve."""

    def __init__(self, stores: Stores, replies: Sequence[ModelReply], agent: Mapping[str, Any] = CONFIRMED) -> None:
        self.ran: list[str] = []
        self.model = Replies({"solo": replies, "child": [calls(call("k1", "write")), said("child is done")]})
        self.stores = stores
        self.inbox = Inbox(stores)
        self._agents = [{"name": "solo", **agent}, {"name": "child", **CONFIRMED}]
        self.relay = self.worker()
        self.job = ""

    def worker(self, agents: Sequence[Mapping[str, Any]] = ()) -> Relay:
        """Another process, which knows nothing of what the first one knew."""
        return Relay(self.stores, team(*(agents or self._agents)), self.model, tools=self._tools())

    def _tools(self) -> list[Tool]:
        return [
            tool_named("write", ran=self.ran),
            tool_named("put", idempotent=True, ran=self.ran),
            tool_named("look", read_only=True, ran=self.ran),
            ask_user,
        ]

    async def begun(self) -> "Stage":
        self.job = await self.relay.submit("do it", agent="solo")
        await self.relay.drain()
        return self

    async def waiting(self) -> list[ApprovalView]:
        return sorted(await self.inbox.approvals(job=self.job), key=lambda view: view.id)

    async def say(self, n: int, status: Any = "approved", **more: Any) -> None:
        """Answer an approval, and let another process go on if there is something to do."""
        view = await self.inbox.approval(f"{self.job}:{n}")
        await self.inbox.answer(view.id, Answer(status, view.digest, by="anna", **more))
        self.relay = self.worker()
        await self.relay.drain()

    async def expire(self) -> None:
        """Let what waits expire, as a sweeper finds it."""
        for view in await self.waiting():
            await self.stores.jobs.decide(
                Decided(
                    leg=view.leg,
                    id=view.id,
                    call_id=view.call_id,
                    tool=view.tool,
                    digest=view.digest,
                    status="expired",
                    why="nobody answered in time",
                ),
                passed_ms=2**60,
            )
        await self.relay.drain()

    async def story(self) -> Story:
        return await self.relay.story(self.job)

    def read_by_model(self) -> str:
        """What the model has read when it was asked last."""
        return text_of(self.model.asked("solo")[-1].messages)


def test_what_needs_nobody_runs_first_and_one_pause_asks_for_all_the_rest() -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [TWO, said("done")]).begun()
        assert stage.ran == ["l1"]
        first, second = await stage.waiting()
        assert (first.call_id, first.args, second.call_id, second.args) == ("w1", {"what": "a"}, "w2", {"what": "b"})
        assert first.agent == "solo"
        assert first.rule == "confirmation of agent 'solo'"
        assert first.definition == (await stores.catalogs.in_force()).manifest["solo"]  # type: ignore[union-attr]
        story = await stage.story()
        assert story.view.status == "suspended"
        assert [type(one) for one in story.records[-3:]] == [ApprovalAsked, ApprovalAsked, LegSuspended]
        await stage.say(2)
        assert stage.ran == ["l1"], "both are waited for"
        await stage.say(1)
        assert stage.ran == ["l1", "w1", "w2"]
        story = await stage.story()
        assert story.view.result == "done"
        assert [r.call_id for r in story.of(ToolStarted)] == ["l1", "w1", "w2"]
        results = [result.call_id for result in stage.model.asked("solo")[-1].messages[-1].results]
        assert results == ["w1", "l1", "w2"], "in call order"

    on_server(scenario)


def test_a_denial_is_a_result_that_the_model_can_react_to() -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [TWO, said("then not")]).begun()
        await stage.say(1, "denied", why="not on a Friday")
        await stage.say(2, "denied")
        story = await stage.story()
        assert stage.ran == ["l1"]
        assert story.results["w1"] == "Tool execution denied by user: write: not on a Friday"
        assert story.results["w2"] == "Tool execution denied by user: write"
        assert story.view.result == "then not"

    on_server(scenario)


def test_what_nobody_answers_is_denied() -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [TWO, said("then not")]).begun()
        await stage.say(1)
        await stage.expire()
        story = await stage.story()
        assert stage.ran == ["l1", "w1"]
        assert story.results["w2"] == "Tool execution denied by user: write: nobody answered in time"

    on_server(scenario)


def test_the_same_call_denied_three_times_ends_the_leg() -> None:
    async def scenario(stores: Stores) -> None:
        again = [calls(call(f"w{n}", "write", what="a")) for n in range(4)]
        stage = await Stage(stores, [*again[:2], calls(call("x", "write", what="b")), *again[2:]]).begun()
        for n in range(1, 5):
            await stage.say(n, "denied")
        story = await stage.story()
        assert (story.end.status, story.end.reason) == ("failed", "DENIED")
        assert "'solo' wanted the same call of 'write' 3 times, each time denied" in str(story.end.error)
        assert stage.ran == []

    on_server(scenario)


def test_a_call_with_changed_arguments_runs_with_those_and_the_model_is_told() -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [calls(call("w1", "write", what="rm -rf /")), said("done")]).begun()
        await stage.say(1, edited={"what": "rm x"})
        story = await stage.story()
        assert story.results["w1"] == f'{CHANGED}{{"what": "rm x"}}\n\nwrite(rm x)'
        [decided] = story.of(Decided)
        assert (decided.by, decided.edited) == ("anna", {"what": "rm x"})
        assert story.of(ApprovalAsked)[0].args == {"what": "rm -rf /"}

    on_server(scenario)


def test_an_approval_is_used_once() -> None:
    """A worker that was lost while the approved call ran leaves an approval that lets nothing run any more."""

    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [calls(call("w1", "write")), said("done")]).begun()
        view = await stage.inbox.approval(f"{stage.job}:1")
        await stage.inbox.answer(view.id, Answer("approved", view.digest, by="anna"))
        lost = await claimed(stores, stage.job, lease_s=0.0)
        await stores.jobs.append(
            lost.lease, "t", [ToolStarted(leg=1, call_id="w1", name="write")], used_ms=1, is_progress=False
        )
        assert await stores.jobs.requeue(stage.job, 0.0, 5) == "ok"
        await stage.relay.drain()
        assert stage.ran == []
        [asked] = await stage.waiting()
        assert (asked.id, asked.call_id, asked.reason) == (f"{stage.job}:2", "w1", WORKER_LOST)
        await stage.say(2)
        assert stage.ran == ["w1"]
        assert (await stage.story()).view.result == "done"

    on_server(scenario)


@pytest.mark.parametrize(("tool", "asked", "ran"), [("put", True, ["c1"]), ("write", False, [])])
def test_what_was_lost_runs_again_where_that_does_no_harm_and_is_unknown_where_nobody_was_asked(
    tool: str, asked: bool, ran: list[str]
) -> None:
    async def scenario(stores: Stores) -> None:
        agent = CONFIRMED if asked else {}
        stage = Stage(stores, [calls(call("c1", tool)), said("done")], agent)
        stage.job = await stage.relay.submit("do it", agent="solo")
        if asked:
            await stage.relay.drain()
            view = await stage.inbox.approval(f"{stage.job}:1")
            await stage.inbox.answer(view.id, Answer("approved", view.digest, by="anna", edited={"what": "x"}))
        else:
            await stage.relay.step()
        lost = await claimed(stores, stage.job, lease_s=0.0)
        if not asked:
            reply = ModelReplied(leg=1, turn=1, message=calls(call("c1", tool)).message)
            await stores.jobs.append(lost.lease, "r", [reply], used_ms=1, is_progress=True)
        started = ToolStarted(leg=1, call_id="c1", name=tool)
        await stores.jobs.append(lost.lease, "t", [started], used_ms=1, is_progress=False)
        assert await stores.jobs.requeue(stage.job, 0.0, 5) == "ok"
        await stage.relay.drain()
        story = await stage.story()
        assert stage.ran == ran
        assert story.view.result == "done"
        assert story.results["c1"] == (f'{CHANGED}{{"what": "x"}}\n\nput(x)' if asked else OUTCOME_UNKNOWN)

    on_server(scenario)


BOUND = ["nothing", "digest", "definition", "agent", "id", "decided digest", "decided id", "args", "begun"]


@pytest.mark.parametrize("changed", BOUND)
def test_a_decision_counts_for_what_it_was_made_for_and_once(changed: str) -> None:
    """Of the same call, agent and definition, before it has begun."""
    made = call("w1", "write", what="b" if changed == "args" else "a")
    digest = digest_of("write", {"what": "a"})
    asked = ApprovalAsked(
        leg=1, id="j:1", call_id="w1", tool="write", digest=digest, agent="solo", definition="d", timeout_s=1
    )
    decided = Decided(leg=1, id="j:1", call_id="w1", tool="write", digest=digest, status="approved")
    if changed in ("digest", "definition", "agent", "id"):
        asked = asked.model_copy(update={changed: "other"})
    if changed.startswith("decided"):
        decided = decided.model_copy(update={changed.removeprefix("decided "): "other"})
    begun = [ToolStarted(leg=1, call_id="w1", name="write")] if changed == "begun" else []
    reply = ModelReplied(leg=1, turn=1, message=calls(made).message)
    leg = as_leg([reply, asked, decided, *begun], "solo")
    approvals = Approvals(leg, "d", Asking(definition_from({"name": "solo", "description": "d"}, ""), {}))
    assert (approvals.said_of(made) is not None) is (changed == "nothing")
    again = approvals.judged(made, Decision("ask", "so it is"))
    assert again.verdict == ("allow" if changed == "nothing" else "ask")


def as_leg(records: Sequence[Any], agent: str) -> Leg:
    """As much of a leg as approvals look at."""
    entries = entries_behind(0, records)
    return cast(
        Leg, SimpleNamespace(conversation=Conversation(records), agent=agent, entries=entries, job="j", number=1)
    )


@pytest.mark.parametrize(
    ("asked", "said", "now", "verdict"),
    [
        ({}, {"always_for_job": True}, {}, "allow"),
        ({}, {}, {}, "ask"),
        ({"tool": "bash"}, {"always_for_job": True}, {}, "ask"),
        ({"risk": "low"}, {"always_for_job": True}, {}, "ask"),
        ({"risk": "high"}, {"always_for_job": True}, {"risk": "high"}, "allow"),
        ({}, {"always_for_job": True}, {"risk": "critical"}, "ask"),
        ({}, {"always_for_job": True}, {"approvers": ("anna",)}, "ask"),
        ({}, {"always_for_job": True}, {"separate": True}, "ask"),
        ({}, {"always_for_job": True}, {"verdict": "deny"}, "deny"),
    ],
)
def test_an_approval_for_the_job_covers_that_tool_no_higher_risk_and_no_other_approvers(
    asked: dict[str, Any], said: dict[str, Any], now: dict[str, Any], verdict: str
) -> None:
    told = {"tool": "write", **asked}
    before = ApprovalAsked(leg=1, id="j:1", call_id="w0", digest="x", agent="solo", definition="d", timeout_s=1, **told)
    decided = Decided(leg=1, id="j:1", call_id="w0", tool="write", digest="x", status="approved", **said)
    reply = ModelReplied(leg=1, turn=2, message=calls(made := call("w1", "write")).message)
    agent = definition_from({"name": "solo", "description": "d"}, "")
    approvals = Approvals(as_leg([before, decided, reply], "solo"), "d", Asking(agent, {"write": tool_named("write")}))
    assert approvals.judged(made, Decision(**{"verdict": "ask", **now})).verdict == verdict


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Decision("allow"), ""),
        (Decision("ask", approvers=("anna",)), ""),
        (Decision("ask", approvers=("ben",)), "another approval is needed"),
        (Decision("ask", approvers=("anna",), separate=True), "another approval is needed"),
        (Decision("deny", "rm is forbidden"), "rm is forbidden"),
    ],
)
def test_a_persons_arguments_are_held_to_the_rules_too(rules: Decision, why: str) -> None:
    made = call("w1", "write", what="a")
    digest = digest_of("write", {"what": "a"})
    asked = ApprovalAsked(
        leg=1,
        id="j:1",
        call_id="w1",
        tool="write",
        digest=digest,
        agent="solo",
        definition="d",
        timeout_s=1,
        approvers=("anna",),
    )
    reply = ModelReplied(leg=1, turn=1, message=calls(made).message)
    agent = definition_from({"name": "solo", "description": "d"}, "")
    approvals = Approvals(as_leg([reply, asked], "solo"), "d", Asking(agent, {}))
    said = approvals.why_not_changed(made, rules)
    assert why in said
    assert bool(said) is bool(why)


def test_a_definition_that_is_deployed_meanwhile_changes_nothing_of_what_was_approved() -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [calls(call("w1", "write")), said("done")]).begun()
        newer = {"name": "solo", "prompt": "You: somebody else.", "tools": ["look"]}
        other = stage.worker([newer])
        assert await other.submit("something else", agent="solo") != stage.job
        await stage.say(1)
        assert stage.ran == ["w1"]
        assert "You: solo." in stage.model.asked("solo")[-1].instructions

    on_server(scenario)


def test_what_is_approved_for_the_job_is_asked_no_more_in_it_and_in_no_other() -> None:
    async def scenario(stores: Stores) -> None:
        replies = [calls(call(f"w{n}", "write", what=str(n))) for n in range(3)]
        stage = await Stage(stores, [*replies, calls(call("p", "put")), said("done")]).begun()
        await stage.say(1, always_for_job=True)
        assert stage.ran == ["w0", "w1", "w2"]
        [view] = await stage.waiting()
        assert view.tool == "put", "only that tool"
        await stage.say(2)
        assert (await stage.story()).view.result == "done"
        stage.model._by_agent = {"solo": [calls(call("w9", "write")), said("done")]}
        second = await stage.relay.submit("another", agent="solo")
        await stage.relay.drain()
        assert [view.job for view in await stage.inbox.approvals()] == [second]

    on_server(scenario)


def test_tools_and_delegations_are_asked_in_one_pause_and_children_ask_by_themselves() -> None:
    async def scenario(stores: Stores) -> None:
        agent = {"confirmation": {"require": ["write", "delegate_to_*"]}, "subagents": ["child"]}
        turn = calls(call("w1", "write"), call("d1", "delegate_to_child", objective="a"), call("l1", "look"))
        stage = await Stage(stores, [turn, said("done")], agent).begun()
        assert [(view.tool, view.call_id) for view in await stage.waiting()] == [
            ("write", "w1"),
            ("delegate_to_child", "d1"),
        ]
        await stage.say(1)
        await stage.say(2, edited={"objective": "b"})
        assert stage.ran == ["l1", "w1"]
        [of_child] = await stage.waiting()
        assert (of_child.job, of_child.agent, of_child.tool) == (f"{stage.job}.1", "child", "write")
        assert "b" in text_of(stage.model.asked("child")[0].messages)
        await stage.inbox.answer(of_child.id, Answer("denied", of_child.digest, by="anna"))
        await stage.relay.drain()
        story = await stage.story()
        assert "child is done" in story.results["d1"]
        assert story.view.result == "done"

    on_server(scenario)


def test_a_transfer_can_be_asked_about() -> None:
    async def scenario(stores: Stores) -> None:
        agent = {"confirmation": {"require": ["transfer_to_*"]}, "handoffs": ["child"]}
        stage = await Stage(stores, [calls(handing_over("t1", "child"))], agent).begun()
        assert [view.call_id for view in await stage.waiting()] == ["t1"]
        await stage.say(1)
        assert (await stage.story()).chain == ["solo", "child"]

    on_server(scenario)


def test_people_are_asked_in_the_words_and_for_the_time_of_the_agents_file() -> None:
    async def scenario(stores: Stores) -> None:
        file = {"require": ["write"], "prompt_template": "Really {tool_name} {tool_args}?", "timeout": 30}
        turn = calls(call("w1", "write", what="a"))
        [view] = await (await Stage(stores, [turn, said("x")], {"confirmation": file}).begun()).waiting()
        assert view.text == 'Really write {"what": "a"}?'
        assert (view.timeout_s, view.expires_at_ms - view.asked_at_ms) == (30.0, 30_000)

    on_server(scenario)


def test_time_that_people_take_is_not_the_agents() -> None:
    async def scenario(stores: Stores) -> None:
        agent = {**CONFIRMED, "limits": {"max_seconds": 60}}
        stage = await Stage(stores, [calls(call("w1", "write")), said("done")], agent).begun()
        used_ms = int(await as_any(stores.client.hget(keys.job(stage.job), "used_ms")))
        await as_any(stores.client.hincrby(keys.job(stage.job), "created_ms", -3_600_000))  # an hour ago
        leg = await stage.inbox.approval(f"{stage.job}:1")
        assert used_ms < 60_000
        await stage.inbox.answer(leg.id, Answer("approved", leg.digest, by="anna"))
        assert (await claimed(stores, stage.job)).used_ms == used_ms

    on_server(scenario)


def asks(**args: Any) -> ModelReply:
    return calls(call("q1", "ask_user", **args), call("l1", "look"), call("w1", "write"))


def test_a_question_waits_with_what_is_to_be_approved_and_its_answer_is_the_result() -> None:
    async def scenario(stores: Stores) -> None:
        turn = asks(question="Which branch?", choices=["main", "next"])
        stage = await Stage(stores, [turn, said("done")]).begun()
        question, approval = await stage.waiting()
        assert (question.kind, question.text, question.choices) == ("question", "Which branch?", ("main", "next"))
        assert (question.risk, approval.kind, stage.ran) == ("safe", "call", ["l1"])
        await stage.say(1, "answered", answer="next")
        await stage.say(2)
        story = await stage.story()
        assert (story.results["q1"], story.view.result, stage.ran) == ("next", "done", ["l1", "w1"])
        assert story.of(Decided)[0].answer == "next"
        assert "q1" not in [record.call_id for record in story.of(ToolStarted)]

    on_server(scenario)


@pytest.mark.parametrize(
    ("how", "result"), [("expired", UNANSWERED), ("denied", "The user does not answer this question: busy")]
)
def test_a_question_that_nobody_answers_is_told_to_the_model(how: str, result: str) -> None:
    async def scenario(stores: Stores) -> None:
        stage = await Stage(stores, [calls(call("q1", "ask_user", question="Which?")), said("done")]).begun()
        await (stage.expire() if how == "expired" else stage.say(1, "denied", why="busy"))
        story = await stage.story()
        assert (story.results["q1"], story.view.result) == (result, "done")

    on_server(scenario)


def test_a_question_is_not_asked_where_nobody_is_there_or_it_cannot_be_read_or_the_agent_may_not() -> None:
    async def scenario(stores: Stores) -> None:
        stage = Stage(stores, [calls(call("q1", "ask_user"), call("q2", "ask_user", question="x")), said("done")])
        stage.job = await stage.relay.submit("do it", agent="solo")
        row = (await as_any(stores.client.xrange(keys.journal(stage.job), count=1)))[0][1]
        text = row["r"].replace('"prompt"', '"when_asked":"deny","prompt"')
        await stores.client.delete(keys.journal(stage.job))
        await stores.client.xadd(keys.journal(stage.job), {**row, "r": text}, id="1-0")
        await stores.client.expire(keys.journal(stage.job), 1000)
        await stage.relay.drain()
        story = await stage.story()
        assert "question: is required" in story.results["q1"]
        assert story.results["q2"] == NOBODY_THERE
        unnamed = Stage(stores, [calls(call("q1", "ask_user", question="x")), said("done")], {"tools": ["look"]})
        unnamed.job = await unnamed.relay.submit("again", agent="solo")
        await unnamed.relay.drain()
        assert "Tool not allowed for this agent: 'ask_user'" in (await unnamed.story()).results["q1"]

    on_server(scenario)


@pytest.mark.parametrize("rule", [{"approvers": ("anna",)}, {"separate": True}, {}])
@pytest.mark.parametrize("knows_people", [True, False])
def test_what_certain_people_are_to_approve_is_denied_where_nobody_can_tell_who_answers(
    rule: dict[str, Any], knows_people: bool
) -> None:
    made = call("w1", "write")
    reply = ModelReplied(leg=1, turn=1, message=calls(made).message)
    agent = definition_from({"name": "solo", "description": "d"}, "")
    approvals = Approvals(as_leg([reply], "solo"), "d", Asking(agent, {}), knows_people=knows_people)
    judged = approvals.judged(made, Decision("ask", rule="policy.toml: rule 3", **rule))
    assert judged.verdict == ("ask" if knows_people or not rule else "deny")
    assert ("certain people (policy.toml: rule 3)" in judged.reason) is (judged.verdict == "deny")
