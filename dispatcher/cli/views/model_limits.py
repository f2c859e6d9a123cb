"""What people are told of limits of models."""

from typing import TYPE_CHECKING

from ekiden.shared.model_limits import in_words

if TYPE_CHECKING:
    from ekiden.shared.stores.model_limits import LimitState, ModelLimit

__all__ = ["told_of_limit"]


def told_of_limit(limit: "ModelLimit", state: "LimitState | None" = None) -> str:
    """Say what may be used of a model, how much of it is, and who waits; ``state`` None: no server is there to ask."""
    used = (None, None, None) if state is None else (state.calls, state.tokens, state.running)
    parts = [
        (used[0], limit.rpm, "rpm"),
        (used[1], limit.tpm, "tpm"),
        (used[2], limit.concurrent, "concurrent"),
    ]
    said = [_part(spent, in_words(most, part)) for spent, most, part in parts if most is not None]
    if state is not None and state.waiting:
        said.append(f"{state.waiting:,} waiting")
    if state is not None and state.blocked_s > 0:
        said.append(f"its provider is left alone for {state.blocked_s:.0f} s more")
    return ", ".join(said)


def _part(spent: int | None, most: str) -> str:
    return most if spent is None else f"{spent:,} of {most}"
