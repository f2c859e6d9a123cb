"""What the journal's records are made of."""

import operator
from typing import Any

from pydantic import Field

from ekiden.shared.messages import Usage
from ekiden.shared.stored_model import StoredModel

__all__ = ["LATEST_MS", "UNSAID", "BaseRecord", "ModelCall"]

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar knows what comes behind."""


UNSAID: Any = Field(default="", exclude_if=operator.not_)
"""An empty text is not written."""


class BaseRecord(StoredModel):
    """What all records have: the leg that they belong to."""

    leg: int = 0


class ModelCall(BaseRecord):
    """What all records of model calls have: who was asked, and what that took."""

    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None: nobody said what the model costs."""
    duration_ms: int = 0
