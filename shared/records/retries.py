"""The record of a retry: a job that failed or died goes on."""

import operator
from typing import Literal

from pydantic import Field

from ekiden.shared.records.base import UNSAID, BaseRecord
from ekiden.shared.stored_model import StoredModel

__all__ = ["Retried", "SettledCall"]


class SettledCall(StoredModel):
    """What a person says of a call that had begun, and of which nobody knew whether it was done."""

    call_id: str
    job: str = UNSAID
    """The job that made it, below the one that is retried; empty: that one itself."""
    is_done: bool
    """Whether it was done, and is not made again; else it was not, and may run."""
    text: str = UNSAID
    """What it gave, for the model."""


class Retried(BaseRecord):
    """Somebody let a job that failed or died go on behind its last record."""

    type: Literal["retried"] = "retried"
    settled: tuple[SettledCall, ...] = Field(default=(), exclude_if=operator.not_)
    by: str = UNSAID
    """Who says what is settled; empty: nothing is, or nobody knows."""
    is_claimed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether that is the client's word: the server knows no users, or one for all."""
