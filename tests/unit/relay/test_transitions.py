"""What a move of control is committed with."""

from ekiden.shared.handoff import Frame, first_context
from ekiden.shared.messages import Message, ToolCall
from ekiden.shared.outcomes import Answer, Failed, Transfer
from ekiden.shared.records import Entry, HandedOff, ModelReplied, ToolFinished
from ekiden.shared.relay.message import queue_for
from ekiden.shared.relay.transitions import move_of, return_of

JOB = "abcdefghijklmnop.1"
ROUTE = first_context(JOB).advance("lead", "routed", is_route=True)
CALL = Frame(agent="lead", leg=1, call_id="c", from_agent="user", chain_length=2)
CALLED = ROUTE.advance("helper", "help", call=CALL)
ASKS = ModelReplied(leg=2, turn=1, message=Message(role="model", parts=(ToolCall(id="t", name="bash", args={}),)))
JOURNAL = [Entry(seq=1, at_ms=1, record=ASKS)]


def test_a_handoff_is_written_with_its_call_and_wakes_the_next_agent() -> None:
    (moved,), wakes = move_of(JOB, 1, Transfer(CALLED, call_id="c"), [])
    assert moved == HandedOff(leg=1, context=CALLED, call_id="c", kind="handoff")
    assert wakes.queue == queue_for("helper")


def test_a_handoff_leaves_open_calls_to_the_agent_that_goes_on() -> None:
    records, _ = move_of(JOB, 2, Transfer(CALLED.advance("writer", "write")), JOURNAL)
    assert [record.type for record in records] == ["handoff"]


def test_an_agent_that_gives_control_back_leaves_the_chain_and_no_call_without_an_answer() -> None:
    for outcome in (Answer("done"), Failed("ERROR", "its worker died")):
        back = return_of(CALLED, outcome, upto=1)
        answer, moved = move_of(JOB, 2, back, JOURNAL)[0]
        assert isinstance(answer, ToolFinished)
        assert (answer.result.call_id, answer.result.is_error) == ("t", True)
        assert isinstance(moved, HandedOff)
        assert (moved.kind, back.left, back.context.to_agent) == ("return", ("helper",), "lead")
