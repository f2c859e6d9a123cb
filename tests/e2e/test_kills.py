"""The kill matrix: a process dies at a point of a leg; another one goes on, and nothing is lost or done twice."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.errors import AlreadyDecided
from ekiden.shared.ids import session_id_for
from ekiden.shared.messages import ToolResult
from ekiden.shared.records import (
    Decided,
    Delegated,
    Entry,
    Guarded,
    HandedOff,
    LegStarted,
    ModelReplied,
    NodeFinished,
    Summarised,
    ToolFinished,
)
from tests.e2e.kill_app import (
    ASKED_POINTS,
    GIVE_BACK_POINTS,
    NUDGE_POINTS,
    POINTS,
    REFUSAL_POINTS,
    ROUTING_POINTS,
)
from tests.e2e.kill_team import Effects, Team, gone, team_in
from tests.e2e.program import PATIENCE_S
from tests.invariants import faults_of_journal

ASKED_AGAIN = {
    "in_model": 0,
    "before_refusal": 1,
    "before_nudge": 1,
    "before_commit": 2,
    "before_give_back": 2,
}
"""Which turn's model is asked a second time, by point: its reply was not in the journal yet."""
RESUMED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with team_in(tmp_path_factory.mktemp("kills")) as team:
        yield team


async def run_job(
    team: Team, name: str, leg: int, point: str, agent: str = "first", child: str = "", status: str = "done"
) -> tuple[str, list[Entry], float]:
    """Run a job whose ``leg``, or that of its ``child``, dies at ``point``; return its id, journal and duration."""
    job = f"{session_id_for(name)}.1"
    plan = team.plans / f"{job}{child}.{leg}"
    plan.write_text(point)
    async with Client(team.url) as client:
        began = time.monotonic()
        assert await client.submit("go", agent=agent, request_id=name) == job
        view = await asyncio.wait_for(client.wait(job), PATIENCE_S)
        took = time.monotonic() - began
        await gone(plan)
        said = "all done" if status == "done" else "Outcome unknown: the worker was lost"
        assert view.status == status, team.log()
        assert said in (view.result or "")
        return job, await client.entries(job), took


CASES = [
    *((0, point) for point in ROUTING_POINTS),
    *((1, point) for point in (*POINTS, *REFUSAL_POINTS, *GIVE_BACK_POINTS)),
    *((2, point) for point in (*POINTS, *NUDGE_POINTS)),
]


@pytest.mark.parametrize(("leg", "point"), CASES)
def test_a_process_that_dies_costs_nothing_but_time(team: Team, leg: int, point: str) -> None:
    job, entries, took = asyncio.run(run_job(team, f"{leg} {point} {time.time()}", leg, point))
    records = [entry.record for entry in entries]

    assert [(m.leg, m.context.to_agent) for m in records if isinstance(m, HandedOff)] == [(0, "first"), (1, "second")]
    assert faults_of_journal(entries, is_over=True) == []
    results = [record.result for record in records if isinstance(record, ToolFinished)]
    check_effects(team.effects, job, results, leg, point)
    assert took < RESUMED_WITHIN_S


def test_a_worker_that_dies_behind_a_snapshot_has_no_second_one_written(team: Team) -> None:
    job, entries, took = asyncio.run(run_job(team, f"snapshot {time.time()}", 1, "after_snapshot", "talking"))
    assert faults_of_journal(entries, is_over=True) == []
    assert len([entry for entry in entries if isinstance(entry.record, Summarised)]) == 1
    assert list(team.effects.of("snapshot", job).values()) == [1]
    assert set(team.effects.of("model", job).values()) == {1, 2}, "its turns are counted anew behind it"
    assert took < RESUMED_WITHIN_S


def test_a_process_that_dies_in_a_fork_costs_nothing_but_time_and_what_stands_before_is_not_done_again(
    team: Team,
) -> None:
    async def whole() -> tuple[str, list[Entry]]:
        name = f"fork {time.time()}"
        async with Client(team.url) as client:
            job = await client.submit("go", agent="first", request_id=f"{name} of")
            await asyncio.wait_for(client.wait(job), PATIENCE_S)
            point = next(one for one in await client.fork_points(job) if one.what == "second begins")
            fork = f"{session_id_for(name)}.1"
            plan = team.plans / f"{fork}.2"
            plan.write_text("after_result")
            assert (await client.fork(job, point.seq, request_id=name)).job == fork
            assert (await asyncio.wait_for(client.wait(fork), PATIENCE_S)).result == "all done", team.log()
            await gone(plan)
            return fork, await client.entries(fork)

    fork, entries = asyncio.run(whole())
    assert faults_of_journal(entries, is_over=True) == []
    asked = team.effects.of("model", fork)
    assert {key.split(":")[1] for key in asked} == {"2"}, "the first agent's replies are reused"
    assert set(asked.values()) == {1}, "a recorded reply is never asked again"
    assert list(team.effects.of("idempotent", fork).values()) == [1]
    assert list(team.effects.of("plain", fork).values()) == [1]


def check_effects(effects: Effects, job: str, results: list[ToolResult], leg: int, point: str) -> None:
    paid, printed, asked = effects.of("idempotent", job), effects.of("plain", job), effects.of("model", job)
    assert len(paid) == 2, "each payment has one key, so the server applies it once"
    assert set(printed.values()) == {1}, "a tool that must not run again never does"
    told_unknown = [result for result in results if result.content.startswith("Outcome unknown")]
    assert len(told_unknown) == (1 if point == "in_plain_tool" else 0)
    repeated = {key for key, times in asked.items() if times > 1}
    turn = ASKED_AGAIN.get(point) if leg else None
    assert repeated == (set() if turn is None else {f"{job}:{leg}:{turn}"}), "a recorded reply is never asked again"
    if point != "in_idempotent_tool":
        assert set(paid.values()) == {1}, "a finished tool call never runs again"


def test_a_process_that_dies_between_a_hook_and_its_tool_leaves_what_the_hook_said(team: Team) -> None:
    job, entries, _ = asyncio.run(run_job(team, f"hooked {time.time()}", 1, "after_hook", "hooked"))
    assert faults_of_journal(entries, is_over=True) == []
    [result] = [entry.record.result for entry in entries if isinstance(entry.record, ToolFinished)]
    assert result.content.endswith("paid 8")
    assert set(team.effects.of("hook", job).values()) == {1}, "a hook whose word is recorded is never asked again"
    assert len(team.effects.of("idempotent", job)) == 1


def test_a_process_that_dies_between_a_judgement_and_its_effect_leaves_what_was_said(team: Team) -> None:
    job, entries, _ = asyncio.run(run_job(team, f"guarded {time.time()}", 1, "after_judgement", "guarded"))
    assert faults_of_journal(entries, is_over=True) == []
    assert [entry.record.at for entry in entries if isinstance(entry.record, Guarded)] == ["tool_input", "output"]
    asked = {f"{job}:arguments": 1, f"{job}:answer": 1}
    assert team.effects.of("guard", job) == asked, "a validator whose word is recorded is never asked again"
    assert len(team.effects.of("idempotent", job)) == 1


@pytest.mark.parametrize("point", ASKED_POINTS)
def test_a_process_that_dies_round_an_approval_neither_runs_a_call_by_itself_nor_loses_an_answer(
    team: Team, point: str
) -> None:
    job, entries, answers = asyncio.run(run_asked_job(team, f"asked {point} {time.time()}", point))
    assert faults_of_journal(entries, is_over=True) == []
    decided = [entry.record for entry in entries if isinstance(entry.record, Decided)]
    assert [one.by for one in decided] == answers
    lost_while_it_ran = point == "in_plain_tool"  # which is asked about once more
    assert set(team.effects.of("plain", job).values()) == {1 + lost_while_it_ran}
    assert set(team.effects.of("idempotent", job).values()) == {1}


async def run_asked_job(team: Team, name: str, point: str) -> tuple[str, list[Entry], list[str]]:
    """Run a job whose call of a tool is asked about; return its id, its journal, and who has answered."""
    job = f"{session_id_for(name)}.1"
    plan = team.plans / f"{job}.1"
    if "asking" in point:
        plan.write_text(point)
    async with Client(team.url) as client:
        await client.submit("go", agent="asking", request_id=name)
        [view] = await asked(client, job, f"{job}:1")
        if "asking" not in point:
            plan.write_text(point)
        answers = []
        if "decision" in point:
            dying = await asyncio.to_thread(team.answering, view.id)
            await gone(plan)
            assert await asyncio.to_thread(dying.ends_within, PATIENCE_S) < 0
            answers = ["the one that dies"] if point == "after_decision" else []
        answer = Answer("approved", view.digest, by="anna")
        if answers:
            with pytest.raises(AlreadyDecided, match="by the one that dies"):
                await client.answer(view.id, answer)
        else:
            await client.answer(view.id, answer)
            answers.append("anna")
        if point == "in_plain_tool":
            [again] = await asked(client, job, f"{job}:2")
            await client.answer(again.id, Answer("approved", again.digest, by="ben"))
            answers.append("ben")
        found = await asyncio.wait_for(client.wait(job), PATIENCE_S)
        await gone(plan)
        assert (found.status, found.result) == ("done", "all done"), team.log()
        return job, await client.entries(job), answers


async def asked(client: Client, job: str, approval: str) -> list[ApprovalView]:
    """Wait until this, and nothing else of the job, waits for a person."""
    deadline = time.monotonic() + PATIENCE_S
    found = await client.approvals(job=job)
    while [view.id for view in found] != [approval]:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)
        found = await client.approvals(job=job)
    return found


GRAPH_CASES = [
    *(("", 2, point) for point in ("before_commit", "after_commit")),  # a node has ended, and is written down
    *(("", 3, point) for point in ("before_waiting", "after_waiting")),  # the fan-out
    *(("", 3, point) for point in ("before_commit", "after_commit")),  # behind the join
    ("", 5, "before_commit"),  # the end of a graph in the graph, and the way back
    (".1", 1, "after_waiting"),  # the list begins its items
    *((".1.2", 1, point) for point in ("after_reply", "in_plain_tool")),  # an item
    *((".3", 1, point) for point in ("after_result", "before_commit")),  # a tool
]
BILLS = {"amounts": [1, 2, 3], "extra": 4, "total": 10}
ROUND = [
    *(("plan", BILLS), ("each", ["paid"] * 3), ("extra", "paid"), ("print", "printed 10")),
    *(("judge", "all done"), ("check", "all done")),
]


@pytest.mark.parametrize(("child", "leg", "point"), GRAPH_CASES)
def test_a_worker_that_dies_in_a_graph_costs_nothing_but_time(team: Team, child: str, leg: int, point: str) -> None:
    name = f"graph {child} {leg} {point} {time.time()}"
    job, entries, took = asyncio.run(run_job(team, name, leg, point, "flow", child))
    finished = [entry.record for entry in entries if isinstance(entry.record, NodeFinished)]
    assert [(one.node, one.output) for one in finished] == ROUND * 2
    check_family(team.effects, asyncio.run(family(team, job)))
    assert took < RESUMED_WITHIN_S


def test_a_tool_of_a_graph_whose_worker_dies_in_it_is_not_tried_again_and_the_job_says_why(team: Team) -> None:
    name = f"graph tool {time.time()}"
    job, _, _ = asyncio.run(run_job(team, name, 1, "in_plain_tool", "flow", ".3", status="failed"))
    tools = [key for key in team.effects.of("plain", job) if key.endswith(":node")]
    assert [team.effects.requests["plain", key] for key in tools] == [1]


@pytest.mark.parametrize("point", ["claimed", "after_result", "before_commit"])
def test_what_a_person_says_of_such_a_call_holds_where_the_worker_that_takes_it_in_dies_too(
    team: Team, point: str
) -> None:
    name = f"settled {point} {time.time()}"
    job, _, _ = asyncio.run(run_job(team, name, 1, "in_plain_tool", "flow", ".3", status="failed"))

    async def retried() -> None:
        plan = team.plans / f"{job}.4.1"
        plan.write_text(point)
        async with Client(team.url) as client:
            [unknown] = await client.unknown_calls(job)
            await client.retry(job, done={unknown.id: "printed 10"})
            view = await asyncio.wait_for(client.wait(job), PATIENCE_S)
            await gone(plan)
            assert (view.status, view.result) == ("done", "all done"), team.log()

    asyncio.run(retried())
    printed = [team.effects.requests["plain", key] for key in team.effects.of("plain", job) if key.endswith(":node")]
    assert printed == [1, 1], "in the first round before the retry, then in the second"


async def family(team: Team, job: str) -> dict[str, list[Entry]]:
    """Return the journals of a job and of all below it, by their ids."""
    async with Client(team.url) as client:
        found: dict[str, list[Entry]] = {}
        new = [job]
        while new:
            one = new.pop()
            found[one] = await client.entries(one)
            new += [entry.record.child for entry in found[one] if isinstance(entry.record, Delegated)]
        return found


def check_family(effects: Effects, journals: Mapping[str, list[Entry]]) -> None:
    """Check what was done for jobs. A pool takes those along that ran beside the leg that it was to die in."""
    called: Counter[str] = Counter()
    for job, entries in journals.items():
        assert faults_of_journal(entries, is_over=True) == []
        claims: Counter[int] = Counter()
        for record in (entry.record for entry in entries):
            match record:
                case LegStarted(leg=leg):
                    claims[leg] += 1
                case ModelReplied(leg=leg, turn=turn):
                    asked = effects.requests["model", f"{job}:{leg}:{turn - 1}"]
                    assert asked <= claims[leg], "a recorded reply is never asked again"
                case ToolFinished(leg=leg, result=result):
                    called[result.name] += 1
                    printed = effects.requests["plain", f"{job}:{leg}:{result.call_id}"]
                    assert printed <= 1, "a tool that must not run again never does"
                    assert printed or not result.content.startswith("printed"), "what is said to be done is"
                case _:
                    pass
    assert called == {"complete_task": 2, "pay": 2 * 4, "print_receipt": 2 * 5}, "nothing is left out, or done again"
