"""What people are told of a model that keeps failing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.shared.stores.circuits import CircuitView

__all__ = ["told_for_programs", "told_of"]


def told_of(circuit: "CircuitView") -> str:
    """Say how often the model has failed, and whether anybody asks it: what stands behind its name."""
    times = f"failed {circuit.failures} times in a row" if circuit.failures > 1 else "failed the last time"
    if circuit.open_s:
        return f"{times}, nobody asks it for {circuit.open_s:.0f} s more: {circuit.why}"
    return f"{times}, {'the next call will show' if circuit.has_opened else 'it is asked again'}: {circuit.why}"


def told_for_programs(circuit: "CircuitView | None") -> dict[str, Any] | None:
    """Return the same as JSON; None for a model that has not failed."""
    if circuit is None:
        return None
    return {"failures": circuit.failures, "why": circuit.why, "not_asked_s": circuit.open_s}
