"""How control moves: what a transfer, a route or a return is committed with."""

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.outcomes import Answer, Failed, Transfer, Unfinished
from ekiden.shared.records import Entry, HandedOff, Record
from ekiden.shared.relay.leg import closing_records
from ekiden.shared.relay.message import outbox, queue_for
from ekiden.shared.stores.submissions import Outbox

__all__ = ["move_of", "return_of"]

_GIVEN_BACK = "Not finished: control went back to the agent that waits."
"""The answer to a call that is open when its agent has ended."""


def return_of(current: HandoffContext, outcome: Answer | Unfinished | Failed, upto: int) -> Transfer:
    """Return the move of control back to the agent that waits for this one's end, however it ended."""
    match outcome:
        case Answer(text):
            context = current.come_back(text, is_error=False, upto=upto)
        case Unfinished(text):
            context = current.come_back(f"unfinished: {text}", is_error=True, upto=upto)
        case Failed(_, text):
            context = current.come_back(text, is_error=True, upto=upto)
    left = current.metadata.handoff_chain[len(context.metadata.handoff_chain) :]
    return Transfer(context, left=left)


def move_of(job: str, leg: int, transfer: Transfer, entries: list[Entry]) -> tuple[list[Record], Outbox]:
    """Return the records with which control leaves ``leg``, the move last, and the message that wakes the next leg.

    ``entries``: the job's journal. An agent that has ended leaves no call without an answer.
    """
    context = transfer.context
    moved = HandedOff(leg=leg, context=context, call_id=transfer.call_id)
    if transfer.is_step:
        moved = HandedOff(leg=leg, context=context, kind="edge")
    closing = closing_records(entries, leg, _GIVEN_BACK) if moved.kind == "return" else []
    return [*closing, moved], outbox(job, leg + 1, queue_for(context.to_agent), context)
