"""What a server's result is for a model, for programs and for people."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any

import mcp_types as types

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolOutput

__all__ = ["Keep", "is_question", "output_of", "prompt_text", "said_in"]

_MOST_DATA = 200_000
"""Characters of a structured result, written as JSON."""

Keep = Callable[[str, bytes, str], str]
"""Keeps a name's bytes of a media type, and returns how the model and people find them again."""


def output_of(result: types.CallToolResult, keep: Keep) -> ToolOutput:
    """Return a tool's output. Raises ``ToolError`` where the server says that the call failed."""
    text = "\n".join(_texts_of(result, keep))
    if result.is_error:
        raise ToolError(text or "the call failed, and the server does not say why")
    data = result.structured_content
    if data is None:
        return ToolOutput(text)
    written = json.dumps(data, ensure_ascii=False, default=str)
    if len(written) > _MOST_DATA:
        left_out = f"(its structured content is left out: {len(written):,} characters of JSON)"
        return ToolOutput(f"{text or written[:_MOST_DATA]}\n{left_out}")
    return ToolOutput(text, data)


def is_question(result: types.CallToolResult | types.InputRequiredResult) -> bool:
    """Tell whether a server asks, in place of a result."""
    return isinstance(result, types.InputRequiredResult)


def said_in(result: types.CallToolResult | types.InputRequiredResult) -> str:
    """Return what a result says, for somebody who looks at it. Raises ``ToolError`` as ``output_of`` does."""
    if isinstance(result, types.InputRequiredResult):
        questions = [getattr(request.params, "message", "") for request in (result.input_requests or {}).values()]
        raise ToolError(f"the server asks: {'; '.join(filter(None, questions))}. Only a job can answer it")
    output = output_of(result, lambda name, data, kind: f"[{name}, {kind}, {len(data):,} bytes]")
    return output.text or json.dumps(output.data, ensure_ascii=False)


def prompt_text(result: types.GetPromptResult) -> str:
    """Return what a prompt says, as one text to send."""
    said = types.CallToolResult(content=[message.content for message in result.messages])
    return "\n\n".join(_texts_of(said, lambda name, data, kind: f"[{name}, {kind}, which cannot be sent]"))


def _texts_of(result: types.CallToolResult, keep: Keep) -> Iterator[str]:
    for number, block in enumerate(result.content, 1):
        match block:
            case types.TextContent(text=text):
                yield text
            case types.ImageContent() | types.AudioContent():
                yield _kept(f"{block.type}-{number}", block.data, block.mime_type, keep)
            case types.ResourceLink(name=name, uri=uri):
                yield f"[resource {name}: {uri}]"
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                yield f"[resource {resource.uri}]\n{resource.text}"
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                kind = resource.mime_type or "application/octet-stream"
                yield f"[resource {resource.uri}] " + _kept(f"resource-{number}", resource.blob, kind, keep)
            case _:
                yield f"[{getattr(block, 'type', 'something')} that cannot be shown]"


def _kept(name: str, encoded: Any, kind: str, keep: Keep) -> str:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return f"[{name}, {kind}: it is not encoded as it should be]"
    return keep(name, data, kind)
