"""Which pieces of answers in the making still count."""

from ekiden.dispatcher.journal.live_pieces import LivePieces
from ekiden.shared.messages import Message, ToolResult
from ekiden.shared.records import Ended, LegStarted, ModelReplied, Record, Retried, ToolFinished, ToolStarted
from ekiden.shared.stores.views import LivePiece


def drafts(*records: Record) -> LivePieces:
    found = LivePieces()
    for record in records:
        found.close(record)
    return found


def started(leg: int, attempt: int = 1) -> LegStarted:
    return LegStarted(leg=leg, agent="a", attempt=attempt, worker="w")


def replied(leg: int, turn: int) -> ModelReplied:
    return ModelReplied(leg=leg, turn=turn, message=Message(role="model", parts=()))


def piece(leg: int, turn: int, fence: int) -> LivePiece:
    return LivePiece(leg=leg, turn=turn, fence=str(fence), text="x")


def test_a_turn_is_open_until_its_record_is_there() -> None:
    assert drafts(started(0), started(1)).is_open(piece(1, 1, 2))
    found = drafts(started(0), started(1), replied(1, 1))
    assert not found.is_open(piece(1, 1, 2))
    assert found.is_open(piece(1, 2, 2))


def test_pieces_of_an_attempt_that_ended_are_void() -> None:
    found = drafts(started(0), started(1), started(1, attempt=2))
    assert not found.is_open(piece(1, 1, 2))
    assert found.is_open(piece(1, 1, 3))


def test_nothing_is_open_in_a_job_that_has_ended_until_it_is_retried() -> None:
    end = Ended(leg=1, status="failed", reason="ERROR")
    found = drafts(started(0), started(1), replied(1, 1), end)
    assert not found.is_open(piece(1, 2, 2))
    found = drafts(started(0), started(1), replied(1, 1), end, Retried(leg=1), started(1))
    assert found.is_open(piece(1, 1, 3)), "the void turn is written anew"


def test_what_a_tool_shows_counts_while_it_runs() -> None:
    shown = LivePiece(leg=1, turn=1, fence="2", text="x", call="c")
    begun = ToolStarted(leg=1, call_id="c", name="bash")
    over = ToolFinished(leg=1, result=ToolResult(call_id="c", name="bash", content="ok"))
    before = (started(0), started(1), replied(1, 1))
    assert not drafts(*before).is_open(shown)
    assert drafts(*before, begun).is_open(shown)
    assert not drafts(*before, begun, over).is_open(shown)
    assert not drafts(*before, begun, started(1, attempt=2)).is_open(shown)
