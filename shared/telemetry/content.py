"""What was said, in the GenAI conventions' JSON: made only when somebody asked for it, redacted before it is cut."""

import json
from collections.abc import Iterable
from typing import Any

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import Delegated
from ekiden.shared.redaction import Redactor
from ekiden.shared.telemetry.names import ARGUMENTS, INPUT_MESSAGES, INSTRUCTIONS, OUTPUT_MESSAGES, RESULT

__all__ = ["Content"]

_ROLES = {"user": "user", "model": "assistant", "tool": "tool"}


class Content:
    """Turns messages, arguments and results into attributes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def request(self, request: ModelRequest) -> dict[str, str]:
        """Return what a model is asked."""
        instructions = [{"type": "text", "content": request.instructions}]
        return {
            INSTRUCTIONS: self._json(instructions),
            INPUT_MESSAGES: self._json([_message(message) for message in request.messages]),
        }

    def reply(self, reply: ModelReply) -> dict[str, str]:
        """Return what a model says."""
        return {OUTPUT_MESSAGES: self._json([{**_message(reply.message), "finish_reason": reply.finish}])}

    def arguments(self, call: ToolCall) -> dict[str, str]:
        """Return what a tool is called with."""
        return {ARGUMENTS: self._json(call.args)}

    def result(self, result: ToolResult) -> dict[str, str]:
        """Return what a tool answers."""
        return {RESULT: self._redactor.redact(result.content)}

    def delegation(self, delegated: Delegated) -> dict[str, str]:
        """Return what an agent asks of the one that it delegates to."""
        return {ARGUMENTS: self._json({"objective": delegated.objective})}

    def handoff(self, context: HandoffContext) -> dict[str, str]:
        """Return what an agent tells the next one."""
        told = {"reason": context.reason, "context": context.context, "summary": context.summary}
        said = {key: value for key, value in {**told, "payload": context.payload}.items() if value is not None}
        return {ARGUMENTS: self._json(said)}

    def _json(self, value: Any) -> str:
        return json.dumps(self._redactor.redact_all(value), ensure_ascii=False, default=str)


def _message(message: Message) -> dict[str, Any]:
    return {"role": _ROLES[message.role], "parts": list(_parts(message.parts))}


def _parts(parts: Iterable[TextPart | ToolCall | ToolResult]) -> Iterable[dict[str, Any]]:
    for part in parts:
        match part:
            case TextPart():
                yield {"type": "reasoning" if part.thought else "text", "content": part.text}
            case ToolCall():
                yield {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.args}
            case ToolResult():
                yield {"type": "tool_call_response", "id": part.call_id, "response": part.content}
