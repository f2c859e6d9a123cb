"""What the journal's records are made of."""

import operator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LATEST_MS", "UNSAID", "BaseRecord"]

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar knows what comes behind."""


UNSAID: Any = Field(default="", exclude_if=operator.not_)
"""An empty text is not written."""


class BaseRecord(BaseModel):
    """What all records have: the leg that they belong to."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    leg: int = 0
