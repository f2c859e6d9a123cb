"""The record of what hooks have said."""

import operator
from typing import Any, Literal

from pydantic import Field

from ekiden.shared.records.base import BaseRecord

__all__ = ["Hooked"]


class Hooked(BaseRecord):
    """What hooks have said of an event, in front of the step that it changed: who reads it does the same."""

    type: Literal["hooked"] = "hooked"
    at: str
    """The event."""
    by: tuple[str, ...]
    """The names of those hooks."""
    turn: int = 0
    """The leg's turn that it is about."""
    call_id: str = Field(default="", exclude_if=operator.not_)
    """The call that it is about; empty: none."""
    block: str = Field(default="", exclude_if=operator.not_)
    """Why it does not happen."""
    ask: str = Field(default="", exclude_if=operator.not_)
    """Why a person must approve it."""
    context: str = Field(default="", exclude_if=operator.not_)
    """What the model is told besides."""
    changed: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """What they have changed; of results, replies and answers that is all, for these are recorded as they became."""
    value: Any = None
    """What it takes to change it again: a call's arguments, or the part of a request that is another one."""

    @property
    def text(self) -> str:
        """What hooks have done, in words."""
        done = [f"changed {', '.join(self.changed)}"] if self.changed else []
        done += [
            f"{word}: {why}" for word, why in (("blocked it", self.block), ("wants a person asked", self.ask)) if why
        ]
        done += ["told the model more"] if self.context else []
        return f"{self.at}: the hook {', '.join(map(repr, self.by))} {'; '.join(done)}"
