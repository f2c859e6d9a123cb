"""Calls as models of other programs write them, in our names: before they are recorded, so that all else knows one.

A model that was trained with another program's tools calls ``replace`` with ``old_string`` where ``edit_file`` with
``old`` is offered. Rules, approvals and tools must not have to know all such names.
"""

from collections.abc import Collection

from ekiden.shared.definitions.tool_arguments import OWN_ARGUMENTS
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, own_name
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Part, ToolCall

__all__ = ["OwnNames", "own_call"]


class OwnNames:
    """A ``ChatModel`` whose calls name tools and arguments as they are offered."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply in our names; raise what it raises."""
        reply = await self._model.reply(request, on_delta)
        if not reply.message.calls:
            return reply
        offered = {spec.name for spec in request.tools}
        parts = tuple(_part(part, offered) for part in reply.message.parts)
        if all(own is part for own, part in zip(parts, reply.message.parts, strict=True)):
            return reply
        return reply.model_copy(update={"message": reply.message.model_copy(update={"parts": parts})})


def own_call(call: ToolCall, offered: Collection[str]) -> ToolCall:
    """Return a call in our names; what is offered, or means no tool that workers ship with, stays as it is."""
    own = None if call.name in offered else own_name(call.name)
    name = own if own in BUILTIN_TOOLS else call.name
    names = OWN_ARGUMENTS.get(name, {}) if name in BUILTIN_TOOLS else {}
    args = {names.get(one, one) if names.get(one) not in call.args else one: value for one, value in call.args.items()}
    if name == call.name and args.keys() == call.args.keys():
        return call
    return call.model_copy(update={"name": name, "args": args})


def _part(part: Part, offered: Collection[str]) -> Part:
    return own_call(part, offered) if isinstance(part, ToolCall) and not part.problem else part
