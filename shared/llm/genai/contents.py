"""A request in Gemini's words: contents, tools, configuration.

Gemini 3 and later refuses a function call in the history that lacks the thought signature of the very model that is
asked. Steps of another model are therefore told as text.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from google.genai import types

from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.call_ids import is_own as is_own_id
from ekiden.shared.llm.schema import accepted_schema, wire_name
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult

__all__ = ["config_of", "contents_of"]

_NO_RESULT = "No result was recorded."
_RECORD = (
    "[Record of an earlier step that another model took. To use a tool yourself, call it: never write it as text.]"
)


def contents_of(request: ModelRequest) -> list[types.ContentUnion]:
    """Return the conversation: roles alternate, and every content with calls is followed by as many responses."""
    contents: list[types.ContentUnion] = []
    last: types.Content | None = None
    for content in _contents(request.messages, request.model):
        if last is not None and last.role == content.role and _is_text(last):
            last.parts = [*(last.parts or []), *(content.parts or [])]
        else:
            contents.append(content)
            last = content
    return contents


def config_of(request: ModelRequest) -> types.GenerateContentConfig:
    """Return everything beside the conversation. What the client would do by itself is switched off."""
    tools: types.ToolListUnion = [types.Tool(function_declarations=_declarations(request))] if request.tools else []
    return types.GenerateContentConfig(
        system_instruction=request.instructions or None,
        temperature=request.temperature,
        tools=tools or None,
        tool_config=_forced(request.forced_tools) if request.forced_tools else None,
        response_mime_type="application/json" if request.output else None,
        response_json_schema=accepted_schema(request.output) if request.output else None,
        thinking_config=types.ThinkingConfig(include_thoughts=True) if _thinks(request.model) else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def _declarations(request: ModelRequest) -> list[types.FunctionDeclaration]:
    return [
        types.FunctionDeclaration(
            name=wire_name(tool.name),
            description=tool.description or tool.name,
            parameters_json_schema=accepted_schema(tool.parameters),
        )
        for tool in request.tools
    ]


def _forced(names: Sequence[str]) -> types.ToolConfig:
    return types.ToolConfig(
        function_calling_config=types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[wire_name(name) for name in names]
        )
    )


def _version(model: str) -> tuple[int, int] | None:
    """Return the generation of a model, or None for names that do not tell it (``gemini-flash-latest``)."""
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])", model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _thinks(model: str) -> bool:
    """Tell whether the model may be asked for its thoughts: others refuse the whole request."""
    version = _version(model)
    return version is not None and version >= (2, 5) and (version >= (3, 0) or "lite" not in model)


def _contents(messages: Sequence[Message], model: str) -> Iterator[types.Content]:
    following = (*messages[1:], None)
    for message, after in zip(messages, following, strict=True):
        if message.role == "user" and message.text:
            yield types.Content(role="user", parts=[types.Part(text=message.text)])
        elif message.role == "model":
            yield from _step(message, after.results if after is not None else (), model)


def _step(message: Message, results: Iterable[ToolResult], model: str) -> Iterator[types.Content]:
    """Yield one message of a model and, if it has calls, their results: one for each, in call order."""
    is_own = message.model == model
    as_calls = _may_replay(message, model)
    if parts := list(_model_parts(message, is_own=is_own, with_calls=as_calls)):
        yield types.Content(role="model", parts=parts)
    if not message.calls:
        return
    by_id = {result.call_id: result for result in results}
    answers = [(call, by_id.get(call.id)) for call in message.calls]
    if as_calls:
        yield types.Content(role="user", parts=[_response(call, result, is_own) for call, result in answers])
    else:
        text = "\n\n".join([_RECORD, *(_told(call, result) for call, result in answers)])
        yield types.Content(role="user", parts=[types.Part(text=text)])


def _may_replay(message: Message, model: str) -> bool:
    """Tell whether ``model`` accepts the message's calls as calls."""
    version = _version(model)
    if version is not None and version < (3, 0):
        return True
    is_signed = any(call.signature for call in message.calls[:1])
    return message.model == model and (is_signed or version is None)


def _model_parts(message: Message, *, is_own: bool, with_calls: bool) -> Iterator[types.Part]:
    for part in message.parts:
        signature = _bytes(part.signature) if is_own and isinstance(part, TextPart | ToolCall) else None
        if isinstance(part, TextPart) and (signature or (part.text and not part.thought)):
            yield types.Part(text=part.text, thought=part.thought or None, thought_signature=signature)
        elif isinstance(part, ToolCall) and with_calls:
            call = types.FunctionCall(id=_wire_id(part, is_own), name=wire_name(part.name), args=part.args)
            yield types.Part(function_call=call, thought_signature=signature)


def _response(call: ToolCall, result: ToolResult | None, is_own: bool) -> types.Part:
    is_error = result is None or result.is_error
    response = {"error" if is_error else "output": result.content if result else _NO_RESULT}
    return types.Part(
        function_response=types.FunctionResponse(
            id=_wire_id(call, is_own), name=wire_name(call.name), response=response
        )
    )


def _told(call: ToolCall, result: ToolResult | None) -> str:
    outcome = "Error" if result is None or result.is_error else "Result"
    text = result.content if result else _NO_RESULT
    return f"Tool: {call.name}\nArguments: {json.dumps(call.args, ensure_ascii=False)}\n{outcome}:\n{text}"


def _wire_id(call: ToolCall, is_own: bool) -> str | None:
    """Return the id that Gemini itself gave to the call, if it did."""
    return call.id if is_own and not is_own_id(call.id) else None


def _bytes(signature: str | None) -> bytes | None:
    return base64.b64decode(signature) if signature else None


def _is_text(content: types.Content) -> bool:
    return all(part.function_call is None and part.function_response is None for part in content.parts or [])
