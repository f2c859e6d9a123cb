"""A journal played again to whoever watches, in its own time, faster or slower."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.tree import Placed, Views
from ekiden.dispatcher.journal.view import View

__all__ = ["replay", "totals"]

_TICK_S = 1.0


def replay(
    job: str,
    placed: Sequence[Placed],
    view: View,
    *,
    speed: float,
    longest_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the entries of ``job`` and below, ``speed`` times as fast as they came; no pause is over ``longest_s``."""
    views = Views(job, view)
    for first in placed[:1]:
        views.of(first.job).show(first.entry)
    for (_, before), (of, entry) in pairwise(placed):
        _wait(min((entry.at_ms - before.at_ms) / 1000 / speed, longest_s), view, sleep)
        views.of(of).show(entry)


def totals(story: Story) -> str:
    """Return what a job consisted of, in one line: ``3 agents, 14 tool calls, 2 handoffs``."""
    counts = [
        (len({leg.agent for one in story.tree for leg in one.legs if leg.number}), "agent"),
        (story.count("model"), "model call"),
        (story.count("tool"), "tool call"),
        (story.count("handoff"), "handoff"),
        (story.count("returned"), "return"),
        (story.count("refused"), "refused handoff"),
        (story.count("delegated"), "child job"),
    ]
    return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in counts if number)


def _wait(seconds: float, view: View, sleep: Callable[[float], None]) -> None:
    while seconds > 0:
        sleep(min(seconds, _TICK_S))
        seconds -= _TICK_S
        view.tick()
