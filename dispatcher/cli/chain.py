"""A job's chain: who had it and why, what each took, whom it was refused and whom it called."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatcher.cli.notices import Notices
from dispatcher.cli.output import Output, fitted
from dispatcher.cli.show import chain_text
from dispatcher.cli.trace_story import Leg, Step, Story
from shared.ids import parent_of
from shared.messages import Usage
from shared.records import HandedOff, Refused
from shared.redaction import redact

__all__ = ["chain_json", "figures_of", "legs_of", "show_chain"]

_COLUMNS = 160
"""How wide a line may get where there is no terminal."""
_STYLES = {"failed": "red", "dead": "red", "cancelled": "yellow"}


def legs_of(story: Story) -> list[Leg]:
    """Return the legs of agents: without the routing."""
    return [leg for leg in story.legs if leg.number]


def figures_of(story: Story, leg: Leg) -> list[str]:
    """Return how long the agent had the job, and what it used up meanwhile."""
    if leg.left_ms is not None:
        took = f"{(leg.left_ms - leg.ready_ms) / 1000:.1f} s"
    else:
        took = "still running" if leg.attempts else "waits for a worker" if story.end is None else "never began"
    return [took, *_spent(leg.usage, leg.cost_usd)]


def show_chain(story: Story) -> None:
    """Write the chain in one line, what the job took, then a tree: a line for each agent, branches for its children."""
    from shutil import get_terminal_size

    out = Output()
    columns = get_terminal_size((_COLUMNS, 0)).columns if out.is_terminal else _COLUMNS
    drawing = _Drawing(out.symbols) if out.is_terminal else _Drawing.plain()
    arrow, dots = drawing.symbols["arrow"], drawing.symbols["dots"]
    out.line(fitted(chain_text(story.chain, arrow), columns, dots), "bold")
    for branch, text, style in drawing.lines(drawing.of(story)):
        out.line(branch + fitted(redact(text), max(columns - len(branch), 1), dots), style)
