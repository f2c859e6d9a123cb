"""What the legs of a job used up, held against the limits of other agent files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ekiden.shared.definitions.model import Limits
from ekiden.shared.records import GRAPH, Ended, Entry, Forked, HandedOff, LastTurn, ModelReplied, Retried

__all__ = ["Leg", "changed_limits", "legs_of"]

_BY_REASON = {
    "MAX_TURNS": "max_turns",
    "MAX_TOKENS": "max_tokens",
    "MAX_COST": "max_cost_usd",
    "TIMEOUT": "max_seconds",
}


@dataclass
class Leg:
    """One agent's stretch of a job; ``seq`` is its last step, ``reason`` the limit that has ended it, if one has."""

    agent: str
    seq: int = 0
    replies: list[ModelReplied] = field(default_factory=list)
    """Those that count for limits are behind ``uncounted``."""
    uncounted: int = 0
    shared: int = 0
    """How many of them another job has asked for."""
    reason: str = ""

    @property
    def used(self) -> dict[str, float]:
        """What was used up before the last turn: a limit that was reached by then would have ended the leg."""
        before = self.replies[self.uncounted : -1]
        return {
            "max_turns": len(before),
            "max_tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in before),
            "max_cost_usd": sum(one.cost_usd or 0.0 for one in before),
        }


def legs_of(entries: Sequence[Entry]) -> list[Leg]:
    """Return the legs of a journal, the routing first, which has no agent."""
    legs = [Leg("")]
    for entry in entries:
        leg, record = legs[-1], entry.record
        leg.seq = entry.seq
        match record:
            case ModelReplied(model=model) if model != GRAPH:  # no model: a node's own call
                leg.replies.append(record)
            case HandedOff(context=context):
                legs.append(Leg(context.to_agent, entry.seq))
            case Retried() | Forked():
                leg.uncounted, leg.reason = len(leg.replies), ""
                leg.shared = leg.uncounted if isinstance(record, Forked) else leg.shared
            case LastTurn(reason=reason) | Ended(reason=reason) if reason in _BY_REASON and not leg.reason:
                leg.reason = reason
    return legs


def changed_limits(leg: Leg, old: Limits | None, new: Limits) -> Iterator[tuple[str, str, str]]:
    """Yield what would be otherwise: what was, what would be, and why. Time is not held against limits."""
    for name, used in leg.used.items():
        most, had = getattr(new, name), getattr(old, name) if old is not None else None
        if most is not None and most != had and used >= most and (had is None or had > most):
            yield f"took {used:,.10g} before its last turn", "ended before", f"{name} is {most:,.10g}"
    if (ended_by := _BY_REASON.get(leg.reason)) is None or old is None:
        return
    had, most = getattr(old, ended_by), getattr(new, ended_by)
    if had is not None and (most is None or most > had):
        now = "not limited" if most is None else f"{most:,.10g}"
        yield f"ended by {ended_by} {had:,.10g}", "would go on", f"{ended_by} is {now}"
