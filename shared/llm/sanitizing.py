"""Makes what a model says storable, where it comes in: a provider's JSON may hold what no journal takes."""

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ChatModel, Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, Part, TextPart, ToolCall
from ekiden.shared.storable import MAX_DEPTH, has_nan, nests_too_deep, storable

__all__ = ["SanitizingModel"]

_TOO_DEEP = (
    f"Not executed: the arguments have more than {MAX_DEPTH} levels of lists and objects in each other. Send them "
    "flatter, or as JSON in a text."
)
_NO_JSON = "Not executed: the arguments hold NaN or an infinity, which is no JSON. Give numbers, null, or a text."
M = TypeVar("M", bound=BaseModel)

_FIRST_HALVES = ("\ud800", "\udbff")


class SanitizingModel:
    """A ``ChatModel`` whose replies, pieces of replies and failures anybody can keep."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply, storable; raise what it raises."""
        try:
            reply = await self._model.reply(request, _Joining(on_delta).show if on_delta else None)
        except ModelError as error:
            error.args = tuple(map(storable, error.args))
            raise
        return _with(reply, message=_message(reply.message), model=storable(reply.model), detail=storable(reply.detail))


class _Joining:
    """Passes deltas on; half a character at the end of one waits for its other half."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._half = ""

    def show(self, delta: Delta) -> None:
        """Pass one delta on."""
        text = delta.text if delta.restart else self._half + delta.text
        is_cut = _FIRST_HALVES[0] <= text[-1:] <= _FIRST_HALVES[1]
        self._half = text[-1:] if is_cut else ""
        self._on_delta(replace(delta, text=storable(text[:-1] if is_cut else text)))


def _message(message: Message) -> Message:
    return _with(message, parts=tuple(map(_part, message.parts)), model=storable(message.model))


def _part(part: Part) -> Part:
    match part:
        case TextPart():
            return _with(part, text=storable(part.text))
        case ToolCall():
            named = _with(part, id=storable(part.id), name=storable(part.name))
            if nests_too_deep(part.args):
                return _with(named, args={}, problem=_TOO_DEEP)
            if has_nan(part.args):
                return _with(named, args={}, problem=_NO_JSON)
            return _with(named, args=storable(part.args))
        case _:
            return part


def _with(model: M, /, **values: Any) -> M:
    """Return it with these values; as it is where it has them, as nearly everything does."""
    changed = {name: value for name, value in values.items() if value != getattr(model, name)}
    return model.model_copy(update=changed) if changed else model
