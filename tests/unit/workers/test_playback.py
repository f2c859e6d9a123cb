"""Jobs that are run again from what they recorded: the same decisions, or where they first differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import Difference, first_difference
from ekiden.dispatcher.session_state import state_before
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import ModelError
from ekiden.shared.ids import session_of
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.outcomes import DEADLINE_PASSED
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    Guarded,
    HandedOff,
    JobRequested,
    LoopJudged,
    ModelReplied,
    Nudged,
    Repairing,
    StateChanged,
)
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.workers.playback.recorded import RecordedJob, Recordings
from ekiden.workers.rail_judge import JUDGE
from ekiden.workers.tools.builtin.state import set_state
from tests.scenarios.relay import Relay, on_server, team, text_of
from tests.unit.workers.helped import judged
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

Journals = dict[str, list[Entry]]


@dataclass
class Job:
    """A job of a team, and what it takes to run it again."""

    replies: Mapping[str, Sequence[Said]]
    agents: Sequence[Mapping[str, Any]]
    ran: list[str] = field(default_factory=list)
    first: str = "lead"

    def run(self, recordings: Recordings | None = None, catalog: Catalog | None = None) -> Journals:
        """Run it to its end on a server of its own."""
        model = Replies(self.replies if recordings is None else {})

        async def scenario(stores: Stores) -> Journals:
            tools = [set_state, tool_named("look", read_only=True, ran=self.ran), tool_named("write", ran=self.ran)]
            relay = Relay(stores, catalog or team(*self.agents), model, tools=tools, recordings=recordings)
            job = await relay.submit("do it", agent=self.first)
            await relay.drain()
            found, behind = Journals(), [job]
            while behind:
                one = behind.pop(0)
                found[one] = await journal_of(stores.jobs, one)
                behind += [entry.record.child for entry in found[one] if isinstance(entry.record, Delegated)]
            return found

        return on_server(scenario)

    def again(self, folder: Path, *agents: Mapping[str, Any], edit: Callable[[Journals], object] = len) -> Any:
        """Run it, and again from what that recorded, by these agents if any; return both runs' journals."""
        first = self.run()
        recorded = {job: list(entries) for job, entries in first.items()}
        edit(recorded)
        write_recording(folder, session_of(next(iter(first))), recording_of(recorded))
        self.ran.clear()
        return first, self.run(Recordings(folder), team(*agents) if agents else None)


def difference(runs: tuple[Journals, Journals], since: int = 0) -> Difference | None:
    first, second = runs
    return first_difference(decisions_of(first), decisions_of(second, played=first), since)


LEAD = {"name": "lead", "handoffs": ["fixer"], "subagents": ["scout"]}
FIXER: dict[str, Any] = {"name": "fixer"}
SCOUT: dict[str, Any] = {"name": "scout"}
REPLIES: Mapping[str, Sequence[Said]] = {
    "lead": [
        calls(
            call("a", "look", what="x"),
            call("b", "look", what="y"),
            ToolCall(id="c", name="set_state", args={"values": {"n": 1}}),
        ),
        calls(call("d", "delegate_to_scout", objective="find it")),
        calls(call("e", "transfer_to_nobody", reason="?")),
        calls(handing_over("f", "fixer")),
    ],
    "scout": [calls(call("s", "look", what="z")), said("found")],
    "fixer": [calls(call("g", "write", what="w")), said("fixed", tokens=7)],
}


def test_a_job_with_everything_in_it_goes_the_same_way_again_and_runs_no_tool(tmp_path: Path) -> None:
    job = Job(REPLIES, [LEAD, FIXER, SCOUT])
    first, second = runs = job.again(tmp_path)
    assert job.ran == []
    assert difference(runs) is None
    was, now = decisions_of(first), decisions_of(second)
    assert {one: [step.told for step in steps] for one, steps in was.items()} == {
        one: [step.told for step in steps] for one, steps in now.items()
    }
    assert len(was) == 2
    [changed] = [one.record for one in next(iter(second.values())) if isinstance(one.record, StateChanged)]
    assert changed.changes == {"n": 1}


def test_what_quotes_the_marks_of_the_first_run_is_the_same_words_in_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id between the marks around what an agent was handed is another one in each run."""
    given = Replies.reply

    async def quoting(self: Replies, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        reply = await given(self, request, on_delta)
        quoted = TextPart(text=request.messages[0].text)
        return reply.model_copy(update={"message": Message(role="model", parts=(quoted, *reply.message.parts))})

    monkeypatch.setattr(Replies, "reply", quoting)
    first, second = runs = Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path)
    marks = [
        {
            entry.record.context.metadata.handoff_id
            for entry in run[next(iter(run))]
            if isinstance(entry.record, HandedOff)
        }
        for run in (first, second)
    ]
    assert not marks[0] & marks[1]
    assert any(mark in entry.model_dump_json() for mark in marks[0] for entry in replies_in(first))
    assert difference(runs) is None


def replies_in(journals: Journals) -> list[ModelReplied]:
    records = (entry.record for entries in journals.values() for entry in entries)
    return [record for record in records if isinstance(record, ModelReplied)]


@pytest.mark.parametrize(
    ("edited", "what", "differing"),
    [
        ({**LEAD, "description": "Else."}, "another prompt", {"definition"}),
        ({**LEAD, "prompt": "You: else."}, "another prompt", {"definition", "model"}),
        ({**LEAD, "handoffs": []}, "another prompt", {"definition", "model", "tools"}),
    ],
)
def test_an_edited_agent_differs_at_its_first_turn_and_each_digest_says_whether(
    tmp_path: Path, edited: Mapping[str, Any], what: str, differing: set[str]
) -> None:
    found = difference(Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, edited, FIXER, SCOUT))
    assert found is not None
    assert (found.what, found.step.kind, found.step.agent, found.step.about) == (what, "model_reply", "lead", "turn 1")
    assert {name for name, same in found.digests.items() if not same} == differing


def test_lines_of_the_system_prompt_that_differ_are_told(tmp_path: Path) -> None:
    found = difference(Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, {**LEAD, "subagents": []}, FIXER, SCOUT))
    assert found is not None
    assert "-# Sub-agents" in found.prompt_lines
    assert {line[0] for line in found.prompt_lines} == {"-"}


def test_what_differs_in_a_delegated_job_is_told_of_that_job(tmp_path: Path) -> None:
    found = difference(Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, LEAD, FIXER, {**SCOUT, "prompt": "Dig."}))
    assert found is not None
    assert (found.job.count("."), found.step.agent, found.what) == (2, "scout", "another prompt")


def test_a_tool_that_is_denied_now_is_another_step(tmp_path: Path) -> None:
    denying = {**FIXER, "tools": {"allow": ["*"], "deny": ["write"]}}
    found = difference(Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, LEAD, denying, SCOUT))
    assert found is not None
    assert (found.step.agent, found.what, found.digests["tools"]) == ("fixer", "another prompt", False)


def test_steps_before_the_first_that_is_asked_about_do_not_count(tmp_path: Path) -> None:
    first, second = Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, {**LEAD, "description": "Else."}, FIXER, SCOUT)
    root = next(iter(first.values()))
    last_of_lead = max(one.seq for one in root if isinstance(one.record, ModelReplied) and one.record.leg == 1)
    assert difference((first, second), last_of_lead) is not None
    assert difference((first, second), last_of_lead + 1) is None


def test_what_is_not_recorded_ends_the_second_run_where_it_is_missing(tmp_path: Path) -> None:
    def lose(journals: Journals) -> None:
        for entries in journals.values():
            entries[:] = [one for one in entries if not (isinstance(one.record, ModelReplied) and one.record.turn == 2)]

    found = difference(Job(REPLIES, [LEAD, FIXER, SCOUT]).again(tmp_path, edit=lose))
    assert found is not None
    assert (found.what, found.was and found.was.about) == ("another step", "turn 2")
    assert found.now is not None
    assert "nothing is recorded for turn 2 of leg 1 (lead)" in found.now.told


def test_a_model_that_failed_fails_the_same_way_again(tmp_path: Path) -> None:
    job = Job({"lead": [calls(call("a", "look")), ModelError("no such model")]}, [{"name": "lead"}])
    first, second = runs = job.again(tmp_path)
    assert difference(runs) is None
    assert "no such model" in decisions_of(second)[next(iter(first))][-1].told


def test_a_later_job_of_a_session_is_told_again_what_had_been_said_before(tmp_path: Path) -> None:
    agents = team({"name": "lead"})
    replies = Replies({"lead": [said("one"), said("two")]})

    async def first(stores: Stores) -> tuple[Journals, SessionView, list[SessionMessage]]:
        relay = Relay(stores, agents, replies)
        one = await relay.submit("first", agent="lead", state={"colour": "红"})
        await relay.drain()
        session = session_of(one)
        two = await relay.submit("second", agent="lead", session=session)
        await relay.drain()
        earlier = await stores.sessions.messages(session, before_job=two)
        journal = {two: await journal_of(stores.jobs, two)}
        assert await stores.sessions.state(session) == state_before([await journal_of(stores.jobs, one)])
        return journal, await stores.sessions.session(session), earlier

    async def second(stores: Stores) -> Journals:
        await stores.sessions.restore(replace(session, jobs=1), earlier, {"colour": "红"}, is_untrusted=False)
        assert await stores.sessions.messages(session.id) == earlier
        relay = Relay(stores, agents, replies, recordings=Recordings(tmp_path))
        job = await relay.submit("second", agent="lead", session=session.id)
        await relay.drain()
        return {job: await journal_of(stores.jobs, job)}

    journals, session, earlier = on_server(first)
    write_recording(tmp_path, session.id, recording_of(journals))
    again = on_server(second)
    assert again.keys() == journals.keys()
    assert difference((journals, again)) is None
    assert "one" in text_of(replies.requests[-1].messages)


def test_what_models_were_asked_beside_the_turns_is_given_again_each_once() -> None:
    looks = [LoopJudged(turn=30, confidence=number / 10, text=str(number)) for number in (1, 2)]
    job = RecordedJob.of([*looks, Repairing(at="output", rail="r", text="{}")])
    assert job.next_beside(LoopJudged) == looks[0]
    assert job.next_beside(LoopJudged) == looks[1]
    assert job.next_beside(LoopJudged) is None
    assert job.next_beside(Repairing) is not None


def test_an_answer_that_models_judged_and_repaired_is_treated_the_same_way_again(tmp_path: Path) -> None:
    form = {"name": "form", "on": "output", "schema": {"type": "string", "maxLength": 3}, "policy": "repair"}
    kind = {"name": "kind", "on": "output", "prompt": "The answer scolds nobody."}
    lead = {"name": "lead", "guardrails": [form, kind]}
    replies = {"lead": [said("too long")], "guardrail-repair": [said("ok")], "guardrail-judge": [judged(0.1)]}
    job = Job(replies, [lead])
    runs = job.again(tmp_path)
    assert difference(runs) is None
    ends = [steps[-1] for one in runs for steps in decisions_of(one).values()]
    assert ['"answer":"ok"' in end.told for end in ends] == [True, True]


def test_what_a_model_said_for_a_guardrail_is_said_again_and_nobody_is_asked(tmp_path: Path) -> None:
    rail = {"name": "kind", "prompt": "It scolds nobody.", "policy": "warn"}
    job = Job({"lead": [said("ok")], JUDGE: [judged(0.9)]}, [{"name": "lead", "guardrails": [rail]}])
    first, second = runs = job.again(tmp_path)
    assert difference(runs) is None
    said_of = [
        [one.record.status for one in next(iter(run.values())) if isinstance(one.record, Guarded)]
        for run in (first, second)
    ]
    assert said_of == [["warned"], ["warned"]]


@pytest.mark.parametrize(
    ("end", "differs"),
    [
        (Ended(status="cancelled", reason="ABORTED", error="cancelled by the user"), False),
        (Ended(status="failed", reason="TIMEOUT", error=DEADLINE_PASSED), False),
        (Ended(status="failed", reason="TIMEOUT", error="its agent took too long"), True),
    ],
)
def test_an_end_from_outside_is_no_decision_and_what_comes_behind_it_in_the_second_run_neither(
    end: Ended, differs: bool
) -> None:
    nobody_said = Ended(status="cancelled", reason="ABORTED", error="nothing goes on")
    was, now = ({"j.1": [Entry(1, 0, Nudged(text="x")), Entry(2, 1, last)]} for last in (end, nobody_said))
    assert (first_difference(decisions_of(was), decisions_of(now)) is not None) == differs


@pytest.mark.parametrize(
    ("by", "is_claimed", "known"), [("anna", False, True), ("anna", True, False), ("", False, False)]
)
def test_people_are_told_apart_where_the_server_that_the_job_ran_on_knew_them(
    tmp_path: Path, by: str, is_claimed: bool, known: bool
) -> None:
    job = f"{'a' * 16}.1"
    request = JobRequested(prompt="do it", by=by, is_claimed=is_claimed)
    write_recording(tmp_path, job, recording_of({job: [Entry(1, 0, request)]}))
    assert Recordings(tmp_path).know_people() == known
