"""What hooks may say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.storable import read_json, storable

__all__ = ["MODES", "HookReply", "ToolChoice"]

MOST_RESULT = 100_000
"""Characters of a call's result: a model reads all of them."""
Mode = Literal["NONE", "ANY", "AUTO"]
MODES: tuple[Mode, ...] = ("NONE", "ANY", "AUTO")
"""How tools are chosen; of what several hooks say, the first of these counts."""


@dataclass(frozen=True)
class ToolChoice:
    """Which of its tools a model is offered in one turn, and whether it must call one of them."""

    mode: Mode = "AUTO"
    names: tuple[str, ...] | None = None
    """None: all that it has."""

    def joined(self, other: "ToolChoice") -> "ToolChoice":
        """Return what two hooks have said together: ``NONE`` wins over ``ANY``, that over ``AUTO``; lists unite."""
        mode = next(mode for mode in MODES if mode in (self.mode, other.mode))
        if self.names is None or other.names is None:
            return ToolChoice(mode, other.names if self.names is None else self.names)
        return ToolChoice(mode, tuple(dict.fromkeys((*self.names, *other.names))))


@dataclass(frozen=True)
class HookReply:
    """What a hook says of an event. What is not set is left as it is."""

    block: str = ""
    """Why it must not happen, for the model where it goes on, else for the user."""
    stop: str = ""
    """Why the job must end here, for the user."""
    ask: str = ""
    """Why a person must approve it first."""
    context: str = ""
    """What the model is told besides."""
    note: str = ""
    """What the user is told."""
    args: Mapping[str, Any] | None = None
    """All of the call's arguments."""
    result: str | None = None
    """The text of the call's result."""
    request: ModelRequest | None = None
    reply: ModelReply | None = None
    """The model's reply; before the model is asked: given in its place."""
    tools: ToolChoice | None = None
    answer: str | None = None
    """The agent's whole answer."""
    agent: str | None = None
    """Who gets the request."""

    def __post_init__(self) -> None:
        """Raise ``TypeError`` or ``ValueError`` where something is set to what it cannot be."""
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"{name!r} of a HookReply cannot be of the type {type(value).__name__!r}")
            if isinstance(value, str):
                object.__setattr__(self, name, storable(value))
        if self.result is not None and len(self.result) > MOST_RESULT:  # a fault would let what it changes through
            cut = f" [cut: the first {MOST_RESULT:,} of {len(self.result):,} characters]"
            object.__setattr__(self, "result", self.result[:MOST_RESULT] + cut)
        if self.args is not None:  # as the journal would give it back
            object.__setattr__(self, "args", read_json(json.dumps(dict(self.args), allow_nan=False)))

    @property
    def said(self) -> tuple[str, ...]:
        """The names of what is set."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) not in ("", None))


_NONE = type(None)
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("block", "stop", "ask", "context", "note"), (str,)),
    "args": (Mapping, _NONE),
    **dict.fromkeys(("result", "answer", "agent"), (str, _NONE)),
    "request": (ModelRequest, _NONE),
    "reply": (ModelReply, _NONE),
    "tools": (ToolChoice, _NONE),
}
