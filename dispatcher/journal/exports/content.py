"""The words of people, models and tools in a story: they leave in an export only when asked for, and redacted."""

import json
from typing import Any

from ekiden.dispatcher.journal.story import Step
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.definitions.transfer_names import PREFIX, transfer_tool_name
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import ModelReplied, ToolFinished
from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.tracing import semconv

__all__ = ["arguments_of", "error_of", "message_parts", "reply_of", "result_of", "tool_of"]


def error_of(step: Step, *, content: bool) -> str | None:
    """Return what went wrong: a word of ours, with ``content`` what the tool or the relay said; None: nothing did."""
    if not step.is_error:
        return None
    if content and (said := result_of(step) if step.kind == "delegated" else step.detail):
        return redact(said)
    if step.is_lost:
        return "worker_lost"
    words = {
        "tool": "tool_error",
        "refused": step.detail.partition(":")[0],
        "route": "NO_ROUTE",
        "guardrail": "guardrail",
    }
    words |= {"delegated": "tool_error", "returned": "no_result"}
    return words.get(step.kind, step.detail)


def tool_of(step: Step, *, content: bool) -> str:
    """Return a tool's name; without ``content`` not one that a model made up, which is its word and no name."""
    if step.kind == "delegated":  # as the relay offers it, however the model wrote it
        return f"delegate_to_{transfer_tool_name(step.name).removeprefix(PREFIX)}"
    is_known = step.is_known or step.name in BUILTIN_TOOLS or step.name.startswith("transfer_to_") or not step.is_error
    return redact(step.name) if content or is_known else semconv.OTHER


def reply_of(step: Step) -> Message | None:
    """Return what a model answered."""
    return step.record.message if isinstance(step.record, ModelReplied) else None


def arguments_of(step: Step) -> str | None:
    """Return a call's arguments as JSON, redacted."""
    return None if step.call is None else json.dumps(redact_all(step.call.args), ensure_ascii=False)


def result_of(step: Step) -> str | None:
    """Return what a tool gave, redacted."""
    return redact(step.record.result.content) if isinstance(step.record, ToolFinished) else None


def message_parts(message: Message) -> list[dict[str, Any]]:
    """Return the parts as the GenAI conventions write them, redacted. Opaque signatures stay behind."""
    return [redact_all(_part(part)) for part in message.parts]


def _part(part: TextPart | ToolCall | ToolResult) -> dict[str, Any]:
    match part:
        case TextPart(text=text, thought=thought):
            return {"type": "reasoning" if thought else "text", "content": text}
        case ToolCall(id=call_id, name=name, args=args):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": args}
        case ToolResult(call_id=call_id, content=text):
            return {"type": "tool_call_response", "id": call_id, "response": text}
