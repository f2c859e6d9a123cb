"""A leg's records, read as turns."""

from ekiden.shared.conversation import Conversation, Turn
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import Delegated, LegStarted, Refused, Retried, ToolStarted
from tests.unit.workers.journal import Job, texts
from tests.unit.workers.world import call, handing_over


def turns(job: Job) -> list[Turn]:
    return Conversation(entry.record for entry in job.entries if entry.record.leg == job.leg).turns


def test_a_crashed_legs_records_of_several_attempts_are_one_conversation() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="one", results=False)
    job.add(ToolStarted(leg=1, call_id="c1", name="look"), LegStarted(leg=1, agent="lead", attempt=2, worker="w2"))
    job.add(ToolStarted(leg=1, call_id="c1", name="look"), job.finished(call("c1", "look")))
    [turn] = turns(job)
    assert turn.started == {"c1"}
    assert turn.open_calls == []
    assert turn.answers["c1"].content == "result of c1"


def refused(call_id: str | None, name: str) -> Refused:
    return Refused(leg=1, call_id=call_id, name=name, code="UNKNOWN_AGENT", message="no")


def test_results_are_shown_in_call_order_and_forgotten_calls_not_at_all() -> None:
    made = [handing_over("t1", "nobody"), call("c1", "look"), handing_over("t2", "helper"), call("c2", "look")]
    job = Job("lead")
    job.turn(*made, results=False)
    job.add(job.finished(made[3]), job.finished(made[1]), job.finished(made[2], forgotten=True))
    job.add(refused("t1", "transfer_to_nobody"))
    [turn] = turns(job)
    message, results = turn.messages()
    assert [one.id for one in message.calls] == ["t1", "c1", "c2"]
    assert [(one.call_id, one.is_error) for one in results.results] == [("t1", True), ("c1", False), ("c2", False)]
    assert turn.refusal == "no"


def test_a_turn_whose_calls_are_not_answered_yet_says_which() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), call("c2", "look"), results=False)
    job.add(job.finished(call("c1", "look")))
    [turn] = turns(job)
    assert [one.id for one in turn.open_calls] == ["c2"]


def test_a_reply_that_was_no_end_is_followed_by_what_the_agent_is_told() -> None:
    job = Job("lead")
    job.nudged_turn("I hand this to helper.", "Call the tool.")
    job.turn(call("c1", "look"))
    first, second = turns(job)
    assert texts(first.messages()) == [("model", "I hand this to helper."), ("user", "Call the tool.")]
    assert (first.nudge, second.nudge) == ("Call the tool.", "")


def test_refused_handoffs_of_the_agents_file_are_remembered_and_answer_no_call() -> None:
    job = Job("lead")
    job.turn(text="done")
    job.add(refused(None, "helper"), refused(None, "writer"))
    [turn] = turns(job)
    assert turn.refused_auto == {"helper", "writer"}
    assert (turn.refusal, turn.answers) == ("", {})


def test_the_child_jobs_of_a_turn_are_known_by_call_until_their_results_come() -> None:
    made: list[ToolCall] = [call("d1", "delegate_to_a"), call("d2", "delegate_to_b")]
    job = Job("lead")
    job.turn(*made, results=False)
    job.add(*(Delegated(leg=1, call_id=one.id, child=f"j.{one.id}", agent="a") for one in made))
    job.add(job.finished(made[1]))
    [turn] = turns(job)
    assert turn.children == {"d1": "j.d1", "d2": "j.d2"}
    assert [one.id for one in turn.open_calls] == ["d1"]


def test_a_retry_forgets_a_reply_that_was_no_answer_and_keeps_what_was_done_and_told() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="one")
    job.nudged_turn("I hand this over.", "Call the tool.")
    job.turn(text="half an ans")
    job.add(Retried(leg=1))
    job.turn(text="the answer")
    found = turns(job)
    assert [turn.reply.message.text for turn in found] == ["one", "I hand this over.", "the answer"]
    assert [turn.is_forgiven for turn in found] == [True, True, False]
