"""The protocol that every model adapter implements."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict

from ekiden.shared.messages import Message, Usage

__all__ = ["Admission", "ChatModel", "Delta", "FinishReason", "ModelReply", "ModelRequest", "OnDelta", "ToolSpec"]

FinishReason = Literal["stop", "unfinished", "max_tokens", "refused", "malformed_call", "empty"]
"""``unfinished``: a whole answer, which says that it does not do what was asked. Only scripts say so."""


class ToolSpec(BaseModel):
    """What a model is told of a tool. ``parameters`` is a JSON Schema of type object."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    description: str
    parameters: dict[str, Any]


class ModelReply(BaseModel):
    """One answer of a model."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    message: Message
    finish: FinishReason = "stop"
    usage: Annotated[Usage, AfterValidator(Usage.of_one_call)] = Usage()
    model: str = ""
    detail: str = ""
    """What the provider said of the finish, for people: ``SAFETY``, ``blocked: PROHIBITED_CONTENT``."""


@dataclass(frozen=True)
class Delta:
    """A piece of an answer while it is being written."""

    text: str
    thought: bool = False
    restart: bool = False
    """Forget the deltas so far: the call begins anew, as after a connection that broke."""


OnDelta = Callable[[Delta], None]


class Admission(Protocol):
    """Lets each attempt of a call in, when a limit that others share has room for it."""

    async def __call__(self, request: "ModelRequest", attempt: Callable[[], Awaitable[ModelReply]]) -> ModelReply:
        """Return what ``attempt`` does, or raise what it raises; or ``OverLimit``: it must not be made now."""
        ...


@dataclass(frozen=True)
class ModelRequest:
    """One model call.

    ``messages`` alternates as the vendors demand: every model message with calls is followed by one tool message with
    as many results, in call order.
    """

    agent: str
    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    forced_tools: tuple[str, ...] = field(default=())
    """Non-empty: the model must call one of these."""
    answer_as: str = ""
    """Non-empty: the only tool of ``tools``, whose call is the answer. A model that can write an answer by a schema is
    asked for that, and what it writes comes back as such a call."""
    output: Mapping[str, Any] | None = None
    """The schema that the text of the answer must fit: adapters are told it, nobody else."""
    prompt_id: str = ""
    """``<agent>-<leg>#<turn>``, in an agent's turns: begins the ids of calls that the provider gives none."""
    admission: Admission | None = field(default=None, compare=False, repr=False)
    """None: nobody limits it."""
    queues: bool = field(default=True, compare=False)
    """Whether it takes its place among those who wait for a limit that leaves no room; else somebody else is asked."""


class ChatModel(Protocol):
    """Answers one request. Raises ``ModelUnavailable`` when a later try may succeed, ``ModelError`` when not."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's next message."""
        ...
