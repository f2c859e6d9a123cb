"""How control moves: the step that a transfer, a route or a return is committed as."""

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.outcomes import Answer, Failed, Transfer
from ekiden.shared.records import HandedOff
from ekiden.shared.relay.message import outbox, queue_for
from ekiden.shared.stores.base import TransferCommit

__all__ = ["GIVEN_BACK", "return_of", "transfer_commit_of"]

GIVEN_BACK = "Not finished: control went back to the agent that waits."
"""The answer to a call that is open when its agent has ended."""


def return_of(current: HandoffContext, outcome: Answer | Failed, upto: int) -> Transfer:
    """Return the move of control back to the agent that waits for this one's end, however it ended."""
    is_error = isinstance(outcome, Failed)
    text = outcome.message if isinstance(outcome, Failed) else outcome.text
    return Transfer(current.come_back(text, is_error=is_error, upto=upto))


def transfer_commit_of(
    job: str, leg: int, current: HandoffContext, transfer: Transfer, *, catalog: str, cycles: str
) -> TransferCommit:
    """Return the step of a job whose ``leg`` has the context ``current``."""
    context = transfer.context
    chain = current.metadata.handoff_chain
    return TransferCommit(
        kind="return" if context.returned else "handoff" if leg else "route",
        context=context,
        records=(HandedOff(leg=leg, context=context, call_id=transfer.call_id),),
        outbox=outbox(job, leg + 1, queue_for(context.to_agent), context),
        catalog=transfer.catalog or catalog,
        max_depth=transfer.max_depth,
        may_return=transfer.may_return,
        cycles=cycles,
        definition=transfer.definition,
        budget=transfer.budget,
        left=chain[len(context.metadata.handoff_chain) :] if context.returned else (),
    )
