"""Vendor-neutral conversation: messages made of parts. All frozen; all JSON through pydantic."""

import operator
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Artifact",
    "Message",
    "Part",
    "TextPart",
    "ToolCall",
    "ToolResult",
    "Usage",
    "answered",
    "error_result",
    "user_message",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class TextPart(_Frozen):
    """Text that a user or a model wrote; ``thought`` marks a model's thinking, never shown as its answer."""

    kind: Literal["text"] = "text"
    text: str
    thought: bool = False
    signature: str | None = None
    """Opaque bytes of the provider (base64), returned to the same model unchanged."""


class ToolCall(_Frozen):
    """A model's request to run a tool. ``id`` is unique within the leg."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    signature: str | None = None
    problem: str | None = None
    """Why nobody can carry the call out, told to the model as its result; its arguments are not kept then."""


class Artifact(_Frozen):
    """A file that a tool made, kept beside the journal of its job."""

    name: str
    mime: str
    size: int
    """Bytes."""
    ref: str
    """What it is kept under."""


class ToolResult(_Frozen):
    """What a tool call gave. Exactly one per call."""

    kind: Literal["result"] = "result"
    call_id: str
    name: str
    content: str
    """For the model."""
    is_error: bool = False
    data: Any = None
    """The same for programs, where the tool gives it: JSON. No model reads it."""
    whole: str = Field(default="", exclude_if=operator.not_)
    """What the whole text is kept under where ``content`` is a part of it; empty: it is all."""
    artifacts: tuple[Artifact, ...] = Field(default=(), exclude_if=operator.not_)


Part = Annotated[TextPart | ToolCall | ToolResult, Field(discriminator="kind")]


class Message(_Frozen):
    """One entry of a conversation, as a model reads or writes it."""

    role: Literal["user", "model", "tool"]
    parts: tuple[Part, ...]
    model: str | None = None
    """The model that wrote it: signatures are only valid there."""
    agent: str | None = None
    """The agent whose answer it is; of what was said in a session only."""

    @property
    def text(self) -> str:
        """The visible text, without thoughts."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart) and not part.thought)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


class Usage(_Frozen):
    """Tokens of one model call, or of many added up. ``output_tokens`` includes thoughts."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


def error_result(call: ToolCall, why: str) -> ToolResult:
    """Answer a call that has no result with why not."""
    return ToolResult(call_id=call.id, name=call.name, content=why, is_error=True)


def user_message(text: str) -> Message:
    """Make a message that the user (or the relay on their behalf) says."""
    return Message(role="user", parts=(TextPart(text=text),))


def answered(results: Iterable[ToolResult]) -> Message:
    """Make the message that answers one turn's tool calls."""
    return Message(role="tool", parts=tuple(results))
