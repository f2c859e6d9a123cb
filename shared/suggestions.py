"""Names and lines that are like a misspelt one: for advice, so a bound in time costs nothing but advice."""

import time
from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import heappush, heappushpop

__all__ = ["nearest"]

MAX_CHARACTERS = 200
"""Of what is compared: two texts may cost the product of their lengths."""
_LOOK_EVERY = 16


def nearest(word: str, candidates: Iterable[str], n: int = 3, cutoff: float = 0.6, *, cpu_s: float = 0.05) -> list[str]:
    """Return up to ``n`` of the candidates that are most like ``word``, the best first, as ``difflib`` finds them.

    Args:
        word: Whatever a model or a file has written.
        candidates: What there is; what cannot be looked at in ``cpu_s`` seconds of a processor is not found.
        n: How many.
        cutoff: How alike, from 0 to 1.
        cpu_s: Seconds; the default may be spent on an event loop.
    """
    until = time.thread_time() + cpu_s
    matcher = SequenceMatcher(b=word[:MAX_CHARACTERS])
    best: list[tuple[float, str]] = []  # a heap: the least of them comes first
    for number, candidate in enumerate(candidates):
        if not number % _LOOK_EVERY and time.thread_time() > until:
            break
        matcher.set_seq1(candidate[:MAX_CHARACTERS])
        least = best[0][0] if len(best) == n else cutoff
        if (
            matcher.real_quick_ratio() >= least
            and matcher.quick_ratio() >= least
            and (ratio := matcher.ratio()) >= least
        ):
            add = heappushpop if len(best) == n else heappush
            add(best, (ratio, candidate))
    return [candidate for _, candidate in sorted(best, reverse=True)]
