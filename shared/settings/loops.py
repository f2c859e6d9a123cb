"""Settings of what keeps agents from going round in circles."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from ekiden.shared.loop_kinds import LoopKind, read_switches
from ekiden.shared.storable import read_json

__all__ = ["KEYS", "LoopSettings"]

KEYS = {"loops": "loops"}
"""The dotted key of each field."""


def _switches(value: Any) -> Any:
    if not isinstance(value, str):
        return read_switches(value)
    try:
        return read_switches(read_json(value))
    except ValueError as error:
        raise ValueError(f'{error}; give true, false, or a JSON object such as {{"text": false}}') from None


class LoopSettings(BaseModel):
    """The part of the settings that is about loops."""

    loops: Annotated[dict[LoopKind, bool], BeforeValidator(_switches)] = Field(default_factory=dict)
    """Which kinds of loops are not looked for, in no agent: ``false``, or an object such as ``{text: false}``."""
