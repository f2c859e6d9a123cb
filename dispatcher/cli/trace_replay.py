"""A journal played again to whoever watches, in its own time, faster or slower."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from dispatcher.cli.show import View
from dispatcher.cli.trace_story import Story
from shared.records import Entry

__all__ = ["replay", "totals"]

_TICK_S = 1.0


def replay(
    entries: Sequence[Entry],
    view: View,
    *,
    speed: float,
    longest_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the entries, ``speed`` times as fast as they came; no pause is longer than ``longest_s``."""
    for entry in entries[:1]:
        view.show(entry)
    for before, entry in pairwise(entries):
        _wait(min((entry.at_ms - before.at_ms) / 1000 / speed, longest_s), view, sleep)
        view.show(entry)


def totals(story: Story) -> str:
    """Return what a job consisted of, in one line: ``3 agents, 14 tool calls, 2 handoffs``."""
    counts = [
        (len({leg.agent for leg in story.legs if leg.number}), "agent"),
        (story.count("model"), "model call"),
        (story.count("tool"), "tool call"),
        (story.count("handoff"), "handoff"),
        (story.count("refused"), "refused handoff"),
    ]
    return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in counts if number)


def _wait(seconds: float, view: View, sleep: Callable[[float], None]) -> None:
    while seconds > 0:
        sleep(min(seconds, _TICK_S))
        seconds -= _TICK_S
        view.tick()
