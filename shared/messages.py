"""Vendor-neutral conversation: messages made of parts. All frozen; all JSON through pydantic."""

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from ekiden.shared.stored_model import StoredModel

__all__ = [
    "MOST_TOKENS",
    "WITHHELD",
    "Artifact",
    "Message",
    "Part",
    "SessionPart",
    "TextPart",
    "ToolCall",
    "ToolResult",
    "Usage",
    "answered",
    "error_result",
    "user_message",
]


MOST_TOKENS = 10_000_000
"""Of input, or of output, that a call may take: some times what any model's window holds."""
WITHHELD = "The result is withheld: "
"""How a result begins that stands in the place of one that a guardrail does not let pass."""
_PARAGRAPH = "\n\n"


class TextPart(StoredModel):
    """Text that a user or a model wrote; ``thought`` marks a model's thinking, never shown as its answer."""

    kind: Literal["text"] = "text"
    text: str
    thought: bool = False
    signature: str | None = None
    """Opaque bytes of the provider (base64), returned to the same model unchanged."""


class ToolCall(StoredModel):
    """A model's request to run a tool. ``id`` is unique within the leg."""

    kind: Literal["call"] = "call"
    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    signature: str | None = None
    problem: str | None = None
    """Why nobody can carry the call out, told to the model as its result; its arguments are not kept then."""


class Artifact(StoredModel):
    """A file that a tool made, kept beside the journal of its job."""

    name: str
    mime: str
    size: int
    """Bytes."""
    ref: str
    """What it is kept under."""


class ToolResult(StoredModel):
    """What a tool call gave. Exactly one per call."""

    kind: Literal["result"] = "result"
    call_id: str
    name: str
    content: str
    """For the model."""
    is_error: bool = False
    is_unknown: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the call ran, and nobody knows what it did: its worker was lost meanwhile, or it was given up."""
    data: Any = None
    """The same for programs, where the tool gives it: JSON. No model reads it."""
    whole: str = Field(default="", exclude_if=operator.not_)
    """What the whole text is kept under where ``content`` is a part of it; empty: it is all."""
    artifacts: tuple[Artifact, ...] = Field(default=(), exclude_if=operator.not_)
    own: tuple[int, int] | None = Field(default=None, exclude_if=operator.not_)
    """Where in ``content`` the tool itself speaks, if there is more: whose arguments it ran with, what hooks say."""

    @property
    def said(self) -> str:
        """What the tool itself said."""
        return self.content if self.own is None else self.content[slice(*self.own)]

    def with_notes(self, before: Sequence[str] = (), behind: Sequence[str] = ()) -> Self:
        """Return it with what the model is told besides, a paragraph each."""
        if not [*before, *behind]:
            return self
        begin = sum(len(text) + len(_PARAGRAPH) for text in before)
        first, last = self.own or (0, len(self.content))
        content = _PARAGRAPH.join([*before, self.content, *behind])
        return self.model_copy(update={"content": content, "own": (begin + first, begin + last)})


Part = Annotated[TextPart | ToolCall | ToolResult, Field(discriminator="kind")]


class SessionPart(StoredModel):
    """Which of a session's earlier jobs a snapshot stands for: those that its readers are told of."""

    before: int
    """The number in the session of the first job that it does not stand for."""
    agent: str = Field(default="", exclude_if=operator.not_)
    """Whose conversation it is: of jobs in which it had control; empty: nobody's own."""
    is_common: bool = Field(default=False, exclude_if=operator.not_)
    """Whether it has the common talk, too: what was routed."""
    text: str = Field(default="", exclude_if=operator.not_)
    """The snapshot."""

    def is_for(self, agent: str, *, is_common: bool) -> bool:
        """Tell whether an agent is told all of it anyhow; ``is_common``: it is told what was routed."""
        return self.agent in ("", agent) and (is_common or not self.is_common)

    def has(self, number: int, agents: Collection[str], to: str) -> bool:
        """Tell whether it stands for a job: its number, who had control, whom the user named."""
        return number < self.before and (self.agent in agents or (self.is_common and not to))


class Message(StoredModel):
    """One entry of a conversation, as a model reads or writes it."""

    role: Literal["user", "model", "tool"]
    parts: tuple[Part, ...]
    model: str | None = None
    """The model that wrote it: signatures are only valid there."""
    agent: str | None = None
    """The agent whose answer it is; of what was said in a session only."""
    snapshots: tuple[SessionPart, ...] = Field(default=(), exclude_if=operator.not_)
    """What stands for the session before, for those who read it; of a request in a session only."""
    aside: bool = Field(default=False, exclude_if=operator.not_)
    """Said by the relay in the middle of the work, such as that a limit is near: it asks for nothing new."""

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


def _no_less_than_none(tokens: int) -> int:
    return max(0, tokens)


class Usage(StoredModel):
    """Tokens of one model call, or of many added up. ``output_tokens`` includes thoughts.

    A server says them, and budgets and limits go by them: less than none gives nothing back.
    """

    input_tokens: Annotated[int, AfterValidator(_no_less_than_none)] = 0
    output_tokens: Annotated[int, AfterValidator(_no_less_than_none)] = 0

    def of_one_call(self) -> "Usage":
        """Return what of it is believed of one call: ``MOST_TOKENS`` each."""
        if max(self.input_tokens, self.output_tokens) <= MOST_TOKENS:
            return self
        return Usage(
            input_tokens=min(self.input_tokens, MOST_TOKENS), output_tokens=min(self.output_tokens, MOST_TOKENS)
        )

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


def error_result(call: ToolCall, why: str, *, is_unknown: bool = False) -> ToolResult:
    """Answer a call that has no result with why not; ``is_unknown``: see ``ToolResult``."""
    return ToolResult(call_id=call.id, name=call.name, content=why, is_error=True, is_unknown=is_unknown)


def user_message(text: str, *, aside: bool = False) -> Message:
    """Make a message that the user (or the relay on their behalf) says; for ``aside`` see ``Message``."""
    return Message(role="user", parts=(TextPart(text=text),), aside=aside)


def answered(results: Iterable[ToolResult]) -> Message:
    """Make the message that answers one turn's tool calls."""
    return Message(role="tool", parts=tuple(results))
