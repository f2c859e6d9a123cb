"""A request in the words of Chat Completions: messages, tools, which of them must be called.

Every call of an assistant's message is answered by one message of the role ``tool`` with its id; what another model
thought or signed does not travel.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.schema import accepted_schema, wire_name
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult

__all__ = ["arguments_of"]

_NO_RESULT = "No result was recorded."
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids that servers take: OpenAI refuses longer ones."""


def arguments_of(
    request: ModelRequest, model: str, *, is_streamed: bool, with_temperature: bool = True
) -> dict[str, Any]:
    """Return the arguments of one call; ``model`` is what the server calls the model of ``request``."""
    arguments: dict[str, Any] = {"model": model, "messages": list(_messages(request))}
    if tools := _tools(request):
        arguments |= {"tools": tools}
    if request.forced_tools:
        arguments |= {"tool_choice": _choice(request.forced_tools)}
    if request.output is not None:
        answer = {"name": "answer", "schema": accepted_schema(request.output)}
        arguments |= {"response_format": {"type": "json_schema", "json_schema": answer}}
    if request.temperature is not None and with_temperature:
        arguments |= {"temperature": request.temperature}
    if is_streamed:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    return arguments


def _tools(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the tools that may be called; where some must be, these alone: no word says "one of these"."""
    offered = [one for one in request.tools if not request.forced_tools or one.name in request.forced_tools]
    return [
        {
            "type": "function",
            "function": {
                "name": wire_name(one.name),
                "description": one.description or one.name,
                "parameters": accepted_schema(one.parameters),
            },
        }
        for one in offered
    ]


def _choice(forced: Sequence[str]) -> Any:
    if len(forced) > 1:
        return "required"
    return {"type": "function", "function": {"name": wire_name(forced[0])}}


def _messages(request: ModelRequest) -> Iterator[dict[str, Any]]:
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    following = (*request.messages[1:], None)
    for message, after in zip(request.messages, following, strict=True):
        if message.role == "user" and message.text:
            yield {"role": "user", "content": message.text}
        elif message.role == "model":
            yield from _step(message, after.results if after is not None else (), request.model)


def _step(message: Message, results: Iterable[ToolResult], model: str) -> Iterator[dict[str, Any]]:
    """Yield one message of a model and, if it has calls, an answer to each."""
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    is_own = message.model == model
    if message.calls:
        said["tool_calls"] = [_call(call, is_own) for call in message.calls]
        if is_own and (thoughts := _thoughts(message)):
            said["reasoning_content"] = thoughts  # some servers refuse calls without the thoughts that led to them
    elif not message.text:
        return
    yield said
    by_id = {result.call_id: result for result in results}
    for call in message.calls:
        yield {"role": "tool", "tool_call_id": _wire_id(call.id, is_own), "content": _told(by_id.get(call.id))}


def _call(call: ToolCall, is_own: bool) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": json.dumps(call.args, ensure_ascii=False)}
    return {"id": _wire_id(call.id, is_own), "type": "function", "function": function}


def _told(result: ToolResult | None) -> str:
    if result is None:
        return f"Error: {_NO_RESULT}"
    return f"Error: {result.content}" if result.is_error else result.content


def _thoughts(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart) and part.thought)


def _wire_id(call_id: str, is_own: bool) -> str:
    """Return the model's own id as it is where servers take it, else one that stands for it in every request."""
    return call_id if is_own and _ID.fullmatch(call_id) else f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"
