"""The ways of going round in circles that can be noticed, and the words that switch each of them off."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ekiden.shared.faults import as_written

__all__ = ["LOOP_KINDS", "LoopKind", "read_switches"]

LoopKind = Literal["calls", "cycles", "errors", "text", "judge"]
"""The same calls again and again, the same few turns in turn, the same error, the same words within one text; and what
a model sees that looks at a long leg."""
LOOP_KINDS: tuple[LoopKind, ...] = get_args(LoopKind)


def read_switches(value: Any) -> Any:
    """Return what a file says of kinds of loops as a mapping; ``true`` and ``false`` are said of all of them.

    Raises ``ValueError`` for a kind that there is none of: what the author meant to switch would not be switched.
    """
    if isinstance(value, bool):
        return dict.fromkeys(LOOP_KINDS, value)
    if not isinstance(value, Mapping):
        raise ValueError(f"must be true, false, or an object such as {{text: false}}, not {as_written(value)}")
    if unknown := [str(key) for key in value if key not in LOOP_KINDS]:
        raise ValueError(f"there is no {unknown[0]!r:.80} to switch: there are {', '.join(LOOP_KINDS)}")
    return dict(value)
