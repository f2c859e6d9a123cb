"""A request in Gemini's words, as the body of it: contents, tools, configuration.

Gemini 3 and later refuses a function call in the history that lacks the thought signature of the very model that is
asked. Steps of another model are therefore told as text.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.call_ids import is_own as is_own_id
from ekiden.shared.llm.schema import accepted_schema, wire_name
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult

__all__ = ["body_of"]

_Json = dict[str, Any]
_NO_RESULT = "No result was recorded."
_RECORD = (
    "[Record of an earlier step that another model took. To use a tool yourself, call it: never write it as text.]"
)


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of a request, but for its model."""
    body: dict[str, Any] = {"contents": _alternating(_contents(request.messages, request.model))}
    if request.instructions:
        body["systemInstruction"] = {"parts": [{"text": request.instructions}], "role": "user"}
    if request.tools:
        body["tools"] = [{"functionDeclarations": _declarations(request)}]
    if request.forced_tools:
        names = [wire_name(name) for name in request.forced_tools]
        body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names}}
    return body | {"generationConfig": _config(request)}


def _alternating(contents: Iterable[_Json]) -> list[_Json]:
    """Return the conversation: roles alternate, and every content with calls is followed by as many responses."""
    told: list[_Json] = []
    for content in contents:
        if told and told[-1]["role"] == content["role"] and _is_text(told[-1]):
            told[-1]["parts"] += content["parts"]
        else:
            told.append(content)
    return told


def _config(request: ModelRequest) -> _Json:
    config: _Json = {}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.output:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": accepted_schema(request.output)}
    if _thinks(request.model):
        config["thinkingConfig"] = {"include_thoughts": True}
    return config


def _declarations(request: ModelRequest) -> list[_Json]:
    return [
        {
            "name": wire_name(tool.name),
            "description": tool.description or tool.name,
            "parameters_json_schema": accepted_schema(tool.parameters),
        }
        for tool in request.tools
    ]


def _version(model: str) -> tuple[int, int] | None:
    """Return the generation of a model, or None for names that do not tell it (``gemini-flash-latest``)."""
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])", model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _thinks(model: str) -> bool:
    """Tell whether the model may be asked for its thoughts: others refuse the whole request."""
    version = _version(model)
    return version is not None and version >= (2, 5) and (version >= (3, 0) or "lite" not in model)


def _contents(messages: Sequence[Message], model: str) -> Iterator[_Json]:
    following = (*messages[1:], None)
    for message, after in zip(messages, following, strict=True):
        if message.role == "user" and message.text:
            yield _content("user", {"text": message.text})
        elif message.role == "model":
            yield from _step(message, after.results if after is not None else (), model)


def _step(message: Message, results: Iterable[ToolResult], model: str) -> Iterator[_Json]:
    """Yield one message of a model and, if it has calls, their results: one for each, in call order."""
    is_own = message.model == model
    as_calls = _may_replay(message, model)
    if parts := list(_model_parts(message, is_own=is_own, with_calls=as_calls)):
        yield _content("model", *parts)
    if not message.calls:
        return
    by_id = {result.call_id: result for result in results}
    answers = [(call, by_id.get(call.id)) for call in message.calls]
    if as_calls:
        yield _content("user", *(_response(call, result, is_own) for call, result in answers))
    else:
        text = "\n\n".join([_RECORD, *(_told(call, result) for call, result in answers)])
        yield _content("user", {"text": text})


def _may_replay(message: Message, model: str) -> bool:
    """Tell whether ``model`` accepts the message's calls as calls."""
    version = _version(model)
    if version is not None and version < (3, 0):
        return True
    is_signed = any(call.signature for call in message.calls[:1])
    return message.model == model and (is_signed or version is None)


def _content(role: str, *parts: _Json) -> _Json:
    return {"parts": list(parts), "role": role}


def _model_parts(message: Message, *, is_own: bool, with_calls: bool) -> Iterator[_Json]:
    for part in message.parts:
        signed = _signed(part.signature) if is_own and isinstance(part, TextPart | ToolCall) else {}
        if isinstance(part, TextPart) and (signed or (part.text and not part.thought)):
            yield {"text": part.text, **({"thought": True} if part.thought else {}), **signed}
        elif isinstance(part, ToolCall) and with_calls:
            call = {"name": wire_name(part.name), "args": part.args, **_wire_id(part, is_own)}
            yield {"functionCall": call, **signed}


def _response(call: ToolCall, result: ToolResult | None, is_own: bool) -> _Json:
    is_error = result is None or result.is_error
    response = {"error" if is_error else "output": result.content if result else _NO_RESULT}
    return {"functionResponse": {"name": wire_name(call.name), "response": response, **_wire_id(call, is_own)}}


def _told(call: ToolCall, result: ToolResult | None) -> str:
    outcome = "Error" if result is None or result.is_error else "Result"
    text = result.content if result else _NO_RESULT
    return f"Tool: {call.name}\nArguments: {json.dumps(call.args, ensure_ascii=False)}\n{outcome}:\n{text}"


def _wire_id(call: ToolCall, is_own: bool) -> _Json:
    """Return the id that Gemini itself gave to the call, if it did."""
    return {"id": call.id} if is_own and not is_own_id(call.id) else {}


def _signed(signature: str | None) -> _Json:
    return {"thoughtSignature": base64.urlsafe_b64encode(base64.b64decode(signature)).decode()} if signature else {}


def _is_text(content: _Json) -> bool:
    return not any("functionCall" in part or "functionResponse" in part for part in content["parts"])
