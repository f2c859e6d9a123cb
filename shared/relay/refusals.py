"""What a model is told when a script refuses its handoff: what is so, and what it can do."""

from ekiden.shared.outcomes import Transfer

__all__ = ["why_refused"]

_FINISH = "finish the task yourself and answer the user"

_WHY = {
    "MAX_DEPTH_EXCEEDED": f"This job may be handed over {{most}} times and has been: {_FINISH}.",
    "CIRCULAR_HANDOFF": f"Agent {{to!r}} has had this job already ({{chain}}): take another one, or {_FINISH}.",
    "REPEATED_HANDOFF": f"You have handed this over to {{to!r}} in the very same words: say what is new, or {_FINISH}.",
    "BUDGET_EXCEEDED": f"The budget of this job is used up: {_FINISH}.",
    "UNKNOWN_DEFINITION": f"Agent {{to!r}} is not in the catalog of this job (any more): {_FINISH}.",
}


def why_refused(code: str, transfer: Transfer) -> str:
    """Return the text of a refusal, by its code."""
    chain = " -> ".join(transfer.context.metadata.handoff_chain[:-1])
    why = _WHY[code].format(to=transfer.context.to_agent, most=transfer.max_depth, chain=chain)
    return f"Not executed: {code}. {why}"
