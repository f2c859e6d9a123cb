"""Numbers as files may give them."""

from typing import Any

from pydantic import AfterValidator, BeforeValidator

__all__ = ["NUMBER", "between"]


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # pydantic collects ValueError, not TypeError
    return value


NUMBER = BeforeValidator(_refuse_bool)
"""``true`` is no number."""


def between(low: float, high: float) -> AfterValidator:
    """Return what refuses numbers that are less than ``low`` or more than ``high``, and those that are none."""

    def check(value: float) -> float:
        if not low <= value <= high:  # also refuses NaN
            raise ValueError(f"must be between {low} and {high}")
        return value

    return AfterValidator(check)
