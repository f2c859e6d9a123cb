"""An answer that fits a schema, from models that write one by themselves: what else would be a call of the only tool.

The agent's conversation stays what it is: the model is told the arguments of former calls as what it has said, and what
it says becomes the arguments of a call. So nothing else has to know of it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ekiden.shared.llm.base import Delta, ModelRequest, OnDelta, ToolSpec
from ekiden.shared.llm.call_arguments import read_arguments
from ekiden.shared.llm.call_ids import call_id
from ekiden.shared.messages import Message, Part, TextPart, ToolCall, user_message

__all__ = ["as_call", "as_text", "quiet"]

_FENCED = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL)
_TOLD = (
    "There is no tool to call here. Where you are told to call {name}, write its arguments: your whole answer is one "
    "JSON object that fits the schema, and nothing else. {about}"
)


def as_text(request: ModelRequest) -> ModelRequest:
    """Return ``request`` with the schema of its only tool for the answer, in the place of the tool."""
    (tool,) = request.tools
    told = _TOLD.format(name=tool.name, about=tool.description)
    return replace(
        request,
        instructions="\n\n".join(filter(None, (request.instructions, told))),
        messages=tuple(_told(request.messages, tool)),
        tools=(),
        forced_tools=(),
        output=tool.parameters,
    )


def as_call(parts: Sequence[Part], request: ModelRequest) -> list[Part]:
    """Return what a model has said to ``as_text(request)`` as a call of the tool, its thoughts before it."""
    said = "".join(part.text for part in parts if isinstance(part, TextPart) and not part.thought)
    if not said.strip():
        return list(parts)
    fenced = _FENCED.fullmatch(said)
    args, problem = read_arguments(fenced[1] if fenced else said)
    taken = {call.id for message in request.messages for call in message.calls}
    made = call_id(None, taken, request.prompt_id, 0)
    thoughts = [part for part in parts if isinstance(part, TextPart) and part.thought]
    return [*thoughts, ToolCall(id=made, name=request.tools[0].name, args=args, problem=problem)]


def quiet(on_delta: OnDelta) -> OnDelta:
    """Return what passes thoughts on alone: nobody wants to read JSON grow."""

    def show(delta: Delta) -> None:
        if delta.thought or delta.restart:
            on_delta(delta)

    return show


def _told(messages: Sequence[Message], tool: ToolSpec) -> Iterator[Message]:
    for message in messages:
        if message.results and all(result.name == tool.name for result in message.results):
            yield user_message("\n\n".join(result.content for result in message.results))
        elif message.calls and all(call.name == tool.name for call in message.calls):
            said = "\n\n".join(json.dumps(call.args, ensure_ascii=False) for call in message.calls)
            yield message.model_copy(update={"parts": (TextPart(text=said),)})
        else:
            yield message
