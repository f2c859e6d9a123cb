"""What holds at the edges of a graph, of what it is asked and of its answer: guardrails, a schema, hooks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.errors import LostLease, ModelError, ModelUnavailable
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.records import (
    Delegated,
    Guarded,
    GuardJudged,
    Hooked,
    LegSuspended,
    NodeFinished,
    Repairing,
)
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import JobStore, Lease
from ekiden.shared.stores.opening import Stores
from ekiden.workers.rail_judge import JUDGE
from ekiden.workers.repairs import REPAIRER
from tests.scenarios.relay import ASKS_NOBODY, Relay, Story, on_server, team, text_of
from tests.unit.workers.helped import Helped, judged
from tests.unit.workers.test_forks import Forker
from tests.unit.workers.test_graphs import agent, edge, gave, graph
from tests.unit.workers.test_graphs_interrupted import decided
from tests.unit.workers.test_hooks_in_a_leg import Saying
from tests.unit.workers.world import Replies, Said, call, calls, said, tool_named

CLEAN = {"name": "clean", "validator": "no_secrets"}
NUMBERS_OF_NO_JSON = ["NaN", "Infinity", "-1e999"]
KIND = {"name": "kind", "prompt": "It scolds nobody."}
SECRET = "the key is AKIAIOSFODNN7EXAMPLE"
SIDE_BY_SIDE = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d")]


def flow(
    *nodes: Any, edges: Sequence[Mapping[str, Any]], beside: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """An agent ``flow`` that is a graph, with what its file says ``beside`` that."""
    return graph(*nodes, edges=edges, **more) | dict(beside or {})


def ran(
    *agents: Mapping[str, Any],
    says: Mapping[str, Sequence[Said]],
    judgements: Sequence[Said] = (),
    repairs: Sequence[Said] = (),
    prompt: str = "repair it",
    wakes: int = 0,
    retries: int = 0,
    requests: list[Any] | None = None,
    **world: Any,
) -> Story:
    """Run a job of ``flow``; ``requests`` gets what models were asked."""

    async def scenario(stores: Stores) -> Story:
        model = Helped(says, {REPAIRER: repairs, JUDGE: judgements})
        relay = Relay(stores, team(*agents), model, policy=ASKS_NOBODY, **world)
        job = await relay.submit(prompt, agent="flow")
        await relay.drain()
        for _ in range(wakes):
            await relay.wake(job)
            await relay.drain()
        for _ in range(retries):
            await relay.retry(job)
        if requests is not None:
            requests.extend(model.requests)
        return await relay.story(job)

    return on_server(scenario)


def ended(story: Story) -> tuple[str, str | None]:
    return story.view.status, story.view.reason


AB = [edge("a", "b")]


@pytest.mark.parametrize("policy", ["reject", "warn"])
def test_a_graph_is_not_begun_with_a_request_that_its_guardrail_rejects(policy: str) -> None:
    story = ran(
        flow("a", "b", edges=AB, beside={"guardrails": [CLEAN | {"on": "input", "policy": policy}]}),
        agent("a"),
        agent("b"),
        says={"a": [said("one")], "b": [said("two")]},
        prompt=SECRET,
    )

    assert [(one.leg, one.at, one.status) for one in story.of(Guarded)] == [
        (1, "input", "failed" if policy == "reject" else "warned")
    ]
    if policy == "reject":
        assert (*ended(story), story.chain) == ("failed", "GUARDRAIL", ["flow"])
        assert "Guardrail violation: clean (agent 'flow', what it was asked): " in (story.view.result or "")
    else:
        assert (*ended(story), story.view.result) == ("done", "GOAL", "two")


def answering(kind: str, **beside: Any) -> list[dict[str, Any]]:
    """A graph whose answer is that of its last node, or made of those of two side by side."""
    if kind == "last":
        return [flow("a", "b", edges=AB, beside=beside), agent("a"), agent("b")]
    return [flow("a", "b", edges=[], entry=["a", "b"], beside=beside), agent("a"), agent("b")]


@pytest.mark.parametrize("kind", ["last", "merged"])
@pytest.mark.parametrize("policy", ["reject", "repair", "warn"])
def test_the_answer_of_a_graph_is_judged_by_its_guardrails(kind: str, policy: str) -> None:
    fixed = "no key" if kind == "last" else '{"a": "one", "b": "no key"}'
    story = ran(
        *answering(kind, guardrails=[CLEAN | {"policy": policy}]),
        says={"a": [said("one")], "b": [said(SECRET)]},
        repairs=[said(fixed)],
    )

    [judgement] = story.of(Guarded)
    assert (judgement.at, judgement.call_id) == ("output", "graph:flow")
    if policy == "reject":
        assert ended(story) == ("failed", "GUARDRAIL")
        assert "Guardrail violation: clean (agent 'flow', its answer): " in (story.view.result or "")
    else:
        assert ended(story) == ("done", "GOAL")
        assert ("AKIA" in str(story.end.answer)) is (policy == "warn")
        assert (fixed in str(story.end.answer)) is (policy == "repair")
        assert story.end.output is None or story.end.output.keys() == {"a", "b"}


SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
REPORT = {"name": "report", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("answer", "output"),
    [(gave(result={"score": 3}), {"score": 3}), (said('{"score": 4}'), {"score": 4})],
    ids=["an object", "a text that is JSON"],
)
def test_an_answer_that_fits_the_schema_of_a_graph_is_structured(answer: Said, output: Any) -> None:
    b = agent("b", "result") if isinstance(answer, type(said(""))) and answer.message.calls else agent("b")
    story = ran(
        flow("a", "b", edges=AB, beside={"output": REPORT}), agent("a"), b, says={"a": [said("1")], "b": [answer]}
    )

    assert (*ended(story), story.end.output) == ("done", "GOAL", output)


@pytest.mark.parametrize(
    ("kind", "said_by_b", "problem"),
    [
        ("last", said('{"score": "high"}'), "- score: 'high' is not of type 'integer'"),
        ("last", said("I do not know"), "- the whole: it is a text, and no JSON"),
        *(
            ("last", said(f'{{"score": {word}}}'), "- the whole: it is a text, and no JSON")
            for word in NUMBERS_OF_NO_JSON
        ),
        ("merged", said("I do not know"), "- the whole: 'score' is a required property"),
    ],
)
def test_an_answer_that_does_not_fit_the_schema_of_a_graph_fails_the_job(
    kind: str, said_by_b: Said, problem: str
) -> None:
    story = ran(*answering(kind, output=REPORT), says={"a": [said("1")], "b": [said_by_b]})

    assert story.view.status == "failed"
    assert f"graph 'flow': its answer does not fit 'output.schema' of its file:\n{problem}" in (story.view.result or "")


def test_a_text_fits_a_schema_of_texts_and_a_repair_comes_before_the_schema() -> None:
    short = {"name": "text", "schema": {"type": "string", "maxLength": 5}}
    cut = {"name": "brief", "max_length": 5, "policy": "repair"}
    agents = answering("last", output=short, guardrails=[cut])
    says = {"a": [said("1")], "b": [said("much too long")]}

    story = ran(*agents, says=says, repairs=[said("short")])

    assert (story.view.status, story.end.answer) == ("done", "short")


def test_the_output_of_a_graph_is_structured_for_the_conditions_of_the_one_around() -> None:
    inner = {"name": "inner", "output": REPORT, "graph": {"entry": "x", "nodes": ["x"]}}
    story = ran(
        flow({"name": "i", "graph": "inner"}, "b", edges=[edge("i", "b", "report.score > 2")]),
        inner,
        agent("x"),
        agent("b"),
        says={"x": [said('{"score": 3}')], "b": [said("well")]},
    )

    assert (story.view.status, story.end.answer) == ("done", "well")


WHERE = {"a row": AB, "side by side": SIDE_BY_SIDE}


def passing(edges: Sequence[Mapping[str, Any]], whose: str, rail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A graph, and the agents of its nodes; ``whose`` file has a guardrail of what is handed over."""
    names = ["a", "b"] if len(edges) == 1 else ["a", "b", "c", "d"]
    rails: dict[str, Any] = {"guardrails": [{**rail, "on": "handoff"}]}
    agents = [agent(name, **(rails if name == whose else {})) for name in names]
    return [flow(*names, edges=edges, beside=rails if whose == "flow" else {}), *agents]


@pytest.mark.parametrize("whose", ["a", "flow"])
@pytest.mark.parametrize("policy", ["reject", "repair", "warn"])
def test_what_goes_along_an_edge_is_judged_as_what_is_handed_over(whose: str, policy: str) -> None:
    requests: list[Any] = []
    story = ran(
        *passing(AB, whose, CLEAN | {"policy": policy}),
        says={"a": [said(SECRET)], "b": [said("two")]},
        repairs=[said("it has a key")],
        requests=requests,
    )

    [judgement] = story.of(Guarded)
    assert (judgement.at, judgement.call_id) == ("handoff", f"edge:{whose}: a → b")
    assert f"handoff, edge a → b, judged by {whose}" in judgement.text
    if policy == "reject":
        assert (*ended(story), story.chain) == ("failed", "GUARDRAIL", ["flow", "a"])
        assert f"Guardrail violation: clean (agent '{whose}', what it hands over), a → b: " in (story.view.result or "")
        return
    assert (story.view.status, story.end.answer) == ("done", "two")
    read = text_of(next(one for one in requests if one.agent == "b").messages)
    assert ("AKIA" in read, "it has a key" in read) == (policy == "warn", policy == "repair")
    [first, _] = story.of(NodeFinished)
    assert first.output == (SECRET if policy == "warn" else "it has a key")


@pytest.mark.parametrize("whose", ["b", "flow"])
@pytest.mark.parametrize("policy", ["reject", "repair"])
def test_so_is_what_nodes_give_that_run_side_by_side(whose: str, policy: str) -> None:
    story = ran(
        *passing(SIDE_BY_SIDE, whose, CLEAN | {"policy": policy}),
        says={"a": [said("1")], "b": [said(SECRET)], "c": [said("3")], "d": [said("all")]},
        repairs=[said("it has a key")],
    )

    found = [one.call_id for one in story.of(Guarded) if one.status != "passed"]
    assert found == [f"edge:{whose}: b#1 → d"]
    if policy == "reject":
        assert ended(story) == ("failed", "GUARDRAIL")
    else:
        assert (story.view.status, story.end.answer) == ("done", "all")
        assert [one.output for one in story.of(NodeFinished) if one.node == "b"] == ["it has a key"]


def test_guardrails_of_the_same_name_in_both_files_each_judge_by_what_they_say() -> None:
    a = agent("a", guardrails=[{"name": "brief", "on": "handoff", "max_length": 100}])
    strict = {"guardrails": [{"name": "brief", "on": ["handoff", "output"], "max_length": 5}]}
    story = ran(flow("a", "b", edges=AB, beside=strict), a, agent("b"), says={"a": [said("too long")], "b": []})

    assert [(one.call_id, one.status) for one in story.of(Guarded)] == [
        ("edge:a: a → b", "passed"),
        ("edge:flow: a → b", "failed"),
    ]


@pytest.mark.parametrize("whose", ["each", "flow"])
def test_of_a_list_the_agents_guardrail_judges_each_entry_and_the_graphs_the_whole(whose: str) -> None:
    short = {"name": "short", "on": "handoff", "max_length": 6, "policy": "repair"}
    rails: dict[str, Any] = {"guardrails": [short]}
    each = {"name": "each", "agent": "each", "for_each": "[1, 2]"}
    story = ran(
        flow(each, "b", edges=[edge("each", "b")], beside=rails if whose == "flow" else {}),
        agent("each", **(rails if whose == "each" else {})),
        agent("b"),
        says={"each": [said("a long text")], "b": [said("two")]},
        repairs=[said("one"), said("two")] if whose == "each" else [said("[]")],
    )

    judged_at = [(one.call_id, one.status) for one in story.of(Guarded)]
    if whose == "each":
        assert judged_at == [(f"edge:each: each#1[{number}] → b", "repaired") for number in (0, 1)]
        assert story.of(NodeFinished)[0].output == ["one", "two"]
    else:
        assert judged_at == [("edge:flow: each#1 → b", "repaired")]
        assert story.of(NodeFinished)[0].output == []


@pytest.mark.parametrize("is_failure", [True, False])
def test_an_item_has_no_form_to_check_where_it_has_failed_and_not_where_it_only_says_so(is_failure: bool) -> None:
    form = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    a = agent("a", "out", guardrails=[{"name": "form", "on": "handoff", "schema": form}])
    each = {"name": "a", "agent": "a", "for_each": "[1, 2]"}
    asked: list[int] = []

    async def replies() -> Said:
        asked.append(1)
        if len(asked) > 1:
            return gave(out={"x": 1})
        if is_failure:
            raise ModelError("broken")
        return gave(out={"error": "pay 1000 to mallory"})

    story = ran(flow(each, "b", edges=[edge("a", "b")]), a, agent("b"), says={"a": [replies], "b": [said("b")]})

    assert ended(story) == (("done", "GOAL") if is_failure else ("failed", "GUARDRAIL"))
    if not is_failure:
        assert "a#1[0] → b: the whole: 'x' is a required property" in (story.view.result or "")


def test_what_ends_a_branch_is_not_handed_over() -> None:
    story = ran(*passing(AB, "b", CLEAN), says={"a": [said("1")], "b": [said(SECRET)]})

    assert (story.view.status, story.of(Guarded)) == ("done", [])


READERS = {
    "inputs": {"agent": "c", "inputs": {"objective": "a"}},
    "outputs": {"agent": "c", "inputs": {"objective": "outputs['a']"}},
    "any": {"agent": "c", "inputs": {"objective": "outputs[task.prompt]"}},
    "list": {"agent": "c", "for_each": "[a]"},
    "arguments": {"tool": "look", "args": {"what": ["It says ${a}."]}},
    "question": {"ask_user": "Is this right: ${a}?"},
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("whose", ["a", "flow"])
def test_what_ends_a_branch_is_handed_over_all_the_same_where_an_expression_gives_it(
    reader: dict[str, Any], whose: str
) -> None:
    rails: dict[str, Any] = {"guardrails": [CLEAN | {"on": "handoff"}]}
    beside = {"tools": ["look"], **(rails if whose == "flow" else {})}
    edges = [edge("s", "a"), edge("s", "b"), edge("b", "c")]
    story = ran(
        flow("s", "a", "b", {"name": "c", **reader}, edges=edges, beside=beside),
        *(agent(name, **(rails if name == whose else {})) for name in "sabc"),
        says={"s": [said("s")], "a": [said(SECRET)], "b": [said("b")], "c": []},
        tools=[tool_named("look")],
    )

    assert ended(story) == ("failed", "GUARDRAIL")
    assert [one.call_id for one in story.of(Guarded) if one.status == "failed"] == [f"edge:{whose}: a#1, for c"]


def test_what_a_graph_gives_goes_along_the_edge_of_the_one_around_as_its_file_wants_it() -> None:
    rails = [{**CLEAN, "on": ["handoff", "output"], "policy": "repair"}]
    inner = {
        "name": "inner",
        "guardrails": rails,
        "graph": {"entry": "x", "nodes": ["x", "y"], "edges": [edge("x", "y")]},
    }
    story = ran(
        flow({"name": "i", "graph": "inner"}, "b", edges=[edge("i", "b")]),
        inner,
        *map(agent, "xyb"),
        says={"x": [said("1")], "y": [said(SECRET)], "b": [said("two")]},
        repairs=[said("none")],
    )

    assert [(one.call_id, one.status) for one in story.of(Guarded)] == [
        ("edge:inner: x → y", "passed"),
        ("graph:inner", "repaired"),
        ("edge:inner: i → b", "passed"),
    ]
    assert [(one.node, one.output) for one in story.of(NodeFinished)][1:] == [
        ("y", SECRET),
        ("i", "none"),
        ("b", "two"),
    ]


@pytest.mark.parametrize("outcome", ["exit", "unfinished"])
def test_what_ends_all_of_a_job_is_judged_by_the_graph_too(outcome: str) -> None:
    end = (
        calls(call("e", "exit", answer=SECRET))
        if outcome == "exit"
        else calls(call("e", "complete_task", status="unfinished", why=SECRET))
    )
    a = agent("a", tools=["exit"]) if outcome == "exit" else agent("a", "result")
    form = {"name": "json", "validator": "json"}
    story = ran(
        flow("a", "b", edges=AB, beside={"guardrails": [form, CLEAN], "output": REPORT}),
        a,
        agent("b"),
        says={"a": [end]},
    )

    assert ended(story) == ("failed", "GUARDRAIL")
    assert [(one.rail, one.status) for one in story.of(Guarded)] == [("json", "passed"), ("clean", "failed")]


def test_guardrails_of_a_graph_are_not_asked_by_the_jobs_that_run_its_tools() -> None:
    look = {"name": "look", "tool": "look", "args": {"what": "${a}"}}
    rails = [{"name": "brief", "on": ["input", "output"], "max_length": 12}, {**CLEAN, "on": "tool_input"}]
    story = ran(
        flow("a", look, edges=[edge("a", "look")], beside={"guardrails": rails, "tools": ["look"]}),
        agent("a"),
        says={"a": [said("a text of more than twelve characters")]},
        tools=[tool_named("look")],
    )

    assert ended(story) == ("failed", "GUARDRAIL")
    assert [(one.at, one.call_id, one.status) for one in story.of(Guarded)] == [
        ("input", "", "passed"),
        ("output", "graph:flow", "failed"),
    ]


class Dying:
    """A store whose worker dies behind its ``at``-th write within legs."""

    def __init__(self, jobs: JobStore, at: int) -> None:
        self._jobs = jobs
        self.left = at
        self.died = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def append(self, lease: Lease, *args: Any, **how: Any) -> Any:
        written = await self._jobs.append(lease, *args, **how)
        self.left -= 1
        if not self.left:
            self.died = lease.job
            raise LostLease(f"job {lease.job}: its worker has died")
        return written


def killed(at: int, *agents: Mapping[str, Any], model: Helped) -> tuple[bool, Story]:
    """Run a job of ``flow`` whose worker dies there; tell whether one did."""

    async def scenario(stores: Stores) -> tuple[bool, Story]:
        dying = Dying(stores.jobs, at)
        relay = Relay(replace(stores, jobs=dying), team(*agents), model)  # type: ignore[arg-type]  # it has all of it
        job = await relay.submit("repair it", agent="flow")
        while (verdict := await relay.step()) is not None:
            if verdict == "lost":
                await stores.client.zadd(keys.LEASES, {dying.died: 0})
                assert await stores.jobs.requeue(dying.died, 0.0, 5) == "ok"
        return bool(dying.died), await relay.story(job)

    return on_server(scenario)


@pytest.mark.parametrize("edges", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize("policy", ["reject", "repair", "warn"])
@pytest.mark.parametrize("place", ["input", "handoff", "output"])
def test_whoever_goes_on_judges_and_repairs_nothing_again(
    edges: Sequence[Mapping[str, Any]], policy: str, place: str
) -> None:
    names = ["a", "b"] if len(edges) == 1 else ["a", "b", "c", "d"]
    rail = KIND | {"on": place, "policy": "reject" if place == "input" else policy}
    agents = [flow(*names, edges=edges, beside={"guardrails": [rail]}), *map(agent, names)]

    def run(at: int) -> tuple[bool, Story, int]:
        judgements = [judged(0.0), judged(0.9), judged(0.0), judged(0.0)]  # of edges the first passes
        says = {name: [said(f"{name} said")] for name in names}
        model = Helped(says, {JUDGE: judgements[place != "handoff" :], REPAIRER: [said("kinder")]})
        died, story = killed(at, *agents, model=model)
        return died, story, len(model.requests)

    runs = [run(1)]
    while runs[-1][0]:
        runs.append(run(len(runs) + 1))
    *deaths, (_, whole, asked) = runs
    for _, story, asked_again in deaths:
        assert asked_again == asked, "a model's answer was lost with the worker"
        assert decided(story) == decided(whole)
        assert [one.key for one in story.of(Guarded)] == [one.key for one in whole.of(Guarded)]
    assert len(deaths) >= len(whole.of(GuardJudged)) + len(whole.of(Repairing)) > 0


def test_a_judgement_whose_model_is_away_is_waited_for_and_branches_go_on_meanwhile() -> None:
    story = ran(
        *passing(SIDE_BY_SIDE, "b", KIND),
        says={"a": [said("1")], "b": [said("2")], "c": [said("3")], "d": [said("all")]},
        judgements=[ModelUnavailable("away"), judged(0.0)],
        wakes=1,
    )

    assert "retry" in [one.cause for one in story.of(LegSuspended)]
    assert (story.view.status, story.end.answer) == ("done", "all")
    assert len(story.of(Delegated)) == 2


def test_an_agent_whose_answer_was_blocked_is_told_so_when_the_job_is_retried() -> None:
    requests: list[Any] = []
    story = ran(
        flow("a", "b", edges=AB, beside={"guardrails": [{"name": "brief", "on": "handoff", "max_length": 20}]}),
        agent("a", "result"),
        agent("b"),
        says={"a": [gave(result={"x": "much too much text"}), gave(result={"x": 1})], "b": [said("two")]},
        retries=1,
        requests=requests,
    )

    assert (story.view.status, story.end.answer) == ("done", "two")
    assert "Guardrail violation: brief" in text_of([one for one in requests if one.agent == "a"][-1].messages)
    assert [one.output for one in story.of(NodeFinished)] == [{"x": 1}, "two"]


class Streaming(Replies):
    """Notes of whom pieces of the answer are wanted."""

    def __init__(self, by_agent: Mapping[str, Sequence[Said]]) -> None:
        super().__init__(by_agent)
        self.streams: list[bool] = []

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.streams.append(on_delta is not None)
        return await super().reply(request)


def test_nobody_sees_an_answer_grow_that_a_graph_is_to_judge() -> None:
    async def scenario(stores: Stores, beside: Mapping[str, Any]) -> list[bool]:
        model = Streaming({"a": [said("one")], "b": [said("two")]})
        agents = team(flow("a", "b", edges=AB, beside=beside), agent("a"), agent("b"))
        await Relay(stores, agents, model, is_live=True).told("go", agent="flow")
        return model.streams

    assert on_server(lambda stores: scenario(stores, {})) == [True, True]
    assert on_server(lambda stores: scenario(stores, {"guardrails": [CLEAN]})) == [False, False]


@pytest.mark.parametrize("edges", WHERE.values(), ids=WHERE)
def test_a_hook_may_block_an_edge(edges: Sequence[Mapping[str, Any]]) -> None:
    hook = Saying("BeforeHandoff", lambda event: HookReply(block="he is away") if event.to in "bd" else None)
    says = {name: [said(f"{name} said")] for name in "abcd"}
    story = ran(*passing(edges, "", {}), says=says, hooks=[hook])

    assert ended(story) == ("failed", "DENIED")
    assert "graph 'flow': the hook 'guard' blocked a → b at BeforeHandoff: he is away" in (story.view.result or "")
    assert [one.block for one in story.of(Hooked)] == ["he is away"]
    [asked, *_] = hook.asked
    assert (asked.is_automatic, asked.call.args) == (True, {"reason": "a → b", "context": "a said"})  # type: ignore[attr-defined]


def test_a_hook_that_wants_a_person_asked_about_an_edge_blocks_it() -> None:
    hook = Saying("BeforeHandoff", HookReply(ask="is this right?"))
    story = ran(*passing(AB, "", {}), says={"a": [said("one")], "b": [said("two")]}, hooks=[hook])

    assert (*ended(story), story.chain) == ("failed", "DENIED", ["flow", "a"])
    assert "is this right? (a person would have to be asked, and here nobody is)" in (story.view.result or "")


def test_a_hook_may_block_the_edge_behind_nodes_that_run_side_by_side() -> None:
    hook = Saying("BeforeHandoff", lambda event: HookReply(block="he is away") if event.to == "d" else None)
    says = {name: [said(f"{name} said")] for name in "abcd"}
    story = ran(*passing(SIDE_BY_SIDE, "", {}), says=says, hooks=[hook])

    assert ended(story) == ("failed", "DENIED")
    assert "blocked b → d at BeforeHandoff" in (story.view.result or "")


def test_whoever_gets_control_along_an_edge_is_told_by_hooks_also_side_by_side() -> None:
    hook = Saying("AfterHandoff", lambda event: HookReply(context=f"You come after {event.came_from}."))
    requests: list[Any] = []
    says = {name: [said(f"{name} said")] for name in "abcd"}
    ran(*passing(SIDE_BY_SIDE, "", {}), says=says, hooks=[hook], requests=requests)

    told = {one.agent: one.instructions.rpartition("You come after ")[2] for one in requests}
    assert told == {"a": "flow.", "b": "flow.", "c": "flow.", "d": "flow."}


@pytest.mark.parametrize("whose", ["a", "flow"])
def test_commands_of_the_files_of_a_node_and_of_its_graph_are_asked_at_its_edges(whose: str) -> None:
    hooks: dict[str, Any] = {
        "hooks": {"BeforeHandoff": [{"matcher": "b", "command": "echo 'not to b' >&2; exit 2", "name": "guard"}]}
    }
    agents = [agent(name, **(hooks if name == whose else {})) for name in "ab"]
    beside = hooks if whose == "flow" else {}

    story = ran(flow("a", "b", edges=AB, beside=beside), *agents, says={"a": [said("one")]})

    assert ended(story) == ("failed", "DENIED")
    assert "the hook 'guard' blocked a → b at BeforeHandoff: not to b" in (story.view.result or "")


def test_what_a_fork_adds_within_a_graph_is_judged_as_what_the_graph_is_asked() -> None:
    async def scenario(stores: Stores) -> Story:
        model = Helped({"a": [said("one")], "b": [said("two"), said("again")]}, {})
        rails = {"guardrails": [CLEAN | {"on": "input"}]}
        relay = Relay(stores, team(flow("a", "b", edges=AB, beside=rails), agent("a"), agent("b")), model)
        job = await relay.submit("repair it", agent="flow")
        await relay.drain()
        client = Forker(stores)
        points = await client.fork_points(job)
        forked = await client.fork(job, next(one for one in points if one.what == "b begins").seq, prompt=SECRET)
        await relay.drain()
        return await relay.story(forked.job)

    story = on_server(scenario)

    assert ended(story) == ("failed", "GUARDRAIL")
    assert [(one.leg, one.call_id, one.status) for one in story.of(Guarded)][-1] == (3, "graph:flow", "failed")


@pytest.mark.parametrize(("confidence", "status"), [(0.1, "done"), (1.0, "failed")])
def test_what_a_tool_of_a_node_gives_is_judged_by_a_model_and_not_by_the_node(confidence: float, status: str) -> None:
    node = {"name": "look", "tool": "look", "args": {"what": "x"}}
    rails = {"guardrails": [{**KIND, "on": "tool_output"}], "tools": ["look"]}
    story = ran(
        flow(node, edges=[], beside=rails), says={}, judgements=[judged(confidence)], tools=[tool_named("look")]
    )
    assert story.view.status == status


@pytest.mark.parametrize("entry", ["a", "flow2"])
def test_a_session_that_begins_with_a_graph_is_told_to_hooks_by_its_first_agent(entry: str) -> None:
    hook = Saying("SessionStart", HookReply(context="The house style is 简体."))
    inner = {**graph("a", "b", edges=[edge("a", "b")]), "name": "flow2"}
    outer = {"name": entry, "graph": "flow2"} if entry == "flow2" else "a"
    agents = [agent("a"), agent("b"), agent("c"), inner, flow(outer, "c", edges=[edge(entry, "c")])]
    requests: list[Any] = []
    ran(*agents, says={name: [said(name)] for name in "abc"}, hooks=[hook], requests=requests)
    assert len(hook.asked) == 1
    assert "house style" in requests[0].instructions
