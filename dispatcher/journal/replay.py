"""A journal played again to whoever watches, in its own time, faster or slower."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ekiden.dispatcher.journal.story import StepKind, Story
from ekiden.dispatcher.journal.tree import Placed, Views
from ekiden.dispatcher.journal.view import View

__all__ = ["duration_s", "replay", "totals"]

_TICK_S = 1.0
_COUNTED: Mapping[StepKind, str] = {
    "tool": "tool",
    "handoff": "handoff",
    "edge": "graph step",
    "guardrail": "guardrail",
    "returned": "return",
    "refused": "refused handoff",
    "delegated": "child job",
}


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


def totals(stories: Sequence[Story]) -> str:
    """Return what jobs consisted of, in one line: ``3 agents, 4 tools, 2 handoffs, 1 guardrail``.

    As their duration, that is their own: what a fork shares is the other job's.
    """
    legs = [leg for story in stories for one in story.tree for leg in one.own_legs]
    counts = [(len({leg.agent for leg in legs if leg.number}), "agent")]
    counts += [(sum(story.count(kind) for story in stories), word) for kind, word in _COUNTED.items()]
    return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in counts if number) or "nothing"


def duration_s(stories: Sequence[Story]) -> str:
    """Return how long jobs took together, each from its request to its end: ``12.3s``."""
    return f"{sum(story.now_ms - story.start_ms for story in stories) / 1000:.1f}s"


def _wait(seconds: float, view: View, sleep: Callable[[float], None]) -> None:
    while seconds > 0:
        sleep(min(seconds, _TICK_S))
        seconds -= _TICK_S
        view.tick()
