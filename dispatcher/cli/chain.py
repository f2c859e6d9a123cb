"""A job's chain: who had it, why it was handed over, how long each agent took."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.cli.output import Output
from dispatcher.cli.show import chain_text
from shared.records import Ended, Entry, HandedOff

__all__ = ["Hop", "hops_of", "show_chain"]


@dataclass(frozen=True)
class Hop:
    """One move of control. ``duration_ms``: how long the target had the job; None while it still has it."""

    from_agent: str
    to_agent: str
    reason: str
    at_ms: int
    duration_ms: int | None


def hops_of(entries: Sequence[Entry]) -> list[Hop]:
    """Return the moves of control in a journal, the route first."""
    moves = [(entry, entry.record) for entry in entries if isinstance(entry.record, HandedOff)]
    ends = [entry.at_ms for entry, _ in moves[1:]]
    ends += [entry.at_ms for entry in entries[-1:] if isinstance(entry.record, Ended)]
    durations = [end - entry.at_ms for (entry, _), end in zip(moves, ends, strict=False)]
    return [
        Hop(
            record.context.from_agent,
            record.context.to_agent,
            record.context.reason,
            entry.at_ms,
            durations[index] if index < len(durations) else None,
        )
        for index, (entry, record) in enumerate(moves)
    ]


def show_chain(hops: Sequence[Hop]) -> None:
    """Write the chain in one line, then every hop with its reason."""
    out = Output()
    arrow = out.symbols["arrow"]
    out.line(chain_text(["user", *(hop.to_agent for hop in hops)], arrow), "bold")
    for hop in hops:
        took = "still running" if hop.duration_ms is None else f"{hop.duration_ms / 1000:.1f} s"
        out.line(f"  {hop.from_agent} {arrow} {hop.to_agent} ({took}): {hop.reason}")
