"""A request in the words of the Messages API.

Results stand first in the user's message behind the calls. A model's thoughts go back to it with the calls that they
led to, signed; what another model thought or signed does not travel.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.schema import accepted_schema, wire_name
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult

__all__ = ["REDACTED", "arguments_of"]

MOST_TOKENS = 32_000
"""Of one answer: every model that is served takes so many."""
REDACTED = "redacted:"
"""Begins the signature of a thought that nobody but the provider can read."""
_NO_RESULT = "No result was recorded."
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def arguments_of(request: ModelRequest, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments of one call, which is always streamed: the client refuses long answers that are not."""
    arguments: dict[str, Any] = {"model": request.model, "max_tokens": MOST_TOKENS, "stream": True}
    arguments["messages"] = list(_messages(request))
    if request.instructions:
        arguments["system"] = request.instructions
    offered = [one for one in request.tools if not request.forced_tools or one.name in request.forced_tools]
    if offered:
        arguments["tools"] = [
            {
                "name": wire_name(one.name),
                "description": one.description or one.name,
                "input_schema": accepted_schema(one.parameters),
            }
            for one in offered
        ]
    if request.forced_tools and "tool_choice" not in without:
        arguments["tool_choice"] = {"type": "any"}
    if request.temperature is not None and "temperature" not in without:
        arguments["extra_body"] = {"temperature": min(request.temperature, 1.0)}
    return arguments


def _messages(request: ModelRequest) -> Iterator[dict[str, Any]]:
    following = (*request.messages[1:], None)
    for message, after in zip(request.messages, following, strict=True):
        if message.role == "user" and message.text.strip():
            yield {"role": "user", "content": message.text}
        elif message.role == "model":
            yield from _step(message, after.results if after is not None else (), request.model)


def _step(message: Message, results: Iterable[ToolResult], model: str) -> Iterator[dict[str, Any]]:
    """Yield one message of a model and, if it has calls, the user's with an answer to each."""
    is_own = message.model == model
    if blocks := list(_blocks(message, is_own=is_own)):
        yield {"role": "assistant", "content": blocks}
    by_id = {result.call_id: result for result in results}
    if message.calls:
        answers = [_answer(_wire_id(call.id, is_own=is_own), by_id.get(call.id)) for call in message.calls]
        yield {"role": "user", "content": answers}


def _blocks(message: Message, *, is_own: bool) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            call_id = _wire_id(part.id, is_own=is_own)
            yield {"type": "tool_use", "id": call_id, "name": wire_name(part.name), "input": part.args}
        elif isinstance(part, TextPart) and not part.thought and part.text.strip():
            yield {"type": "text", "text": part.text}
        elif isinstance(part, TextPart) and part.thought and part.signature and is_own and message.calls:
            yield _thought(part.text, part.signature)


def _thought(text: str, signature: str) -> dict[str, Any]:
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": text, "signature": signature}


def _answer(call_id: str, result: ToolResult | None) -> dict[str, Any]:
    content, is_error = (result.content, result.is_error) if result is not None else (_NO_RESULT, True)
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def _wire_id(call_id: str, *, is_own: bool) -> str:
    """Return the model's own id as it is where the provider takes it, else one that stands for it in every request."""
    is_fit = is_own and _ID.fullmatch(call_id)
    return call_id if is_fit else f"toolu_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"
