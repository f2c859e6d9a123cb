"""What was said, in the GenAI conventions' JSON: made only when somebody asked for it, redacted before it is cut."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ekiden.shared.handoff import HandoffContext, Returned
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult, answered, user_message
from ekiden.shared.records import (
    Delegated,
    Guarded,
    HandedOff,
    Hooked,
    JobRequested,
    LastTurn,
    LimitNear,
    LoopDetected,
    ModelCall,
    ModelReplied,
    Noticed,
    Nudged,
    Recalled,
    Record,
    ToolFinished,
)
from ekiden.shared.tracing.semconv import ARGUMENTS, INPUT_MESSAGES, INSTRUCTIONS, NOTE, OUTPUT_MESSAGES, RESULT

__all__ = ["Content", "Words"]

_ROLES = {"user": "user", "model": "assistant", "tool": "tool"}


class Content:
    """Turns messages, arguments and results into attributes."""

    def __init__(self, redact_all: Callable[[Any], Any]) -> None:
        self._redact_all = redact_all

    def request(self, request: ModelRequest) -> dict[str, str]:
        """Return what a model is asked."""
        instructions = [{"type": "text", "content": request.instructions}]
        return {
            INSTRUCTIONS: self._json(instructions),
            **self.heard(request.messages),
        }

    def heard(self, messages: Sequence[Message]) -> dict[str, str]:
        """Return what a model is told."""
        return {INPUT_MESSAGES: self._json([_message(message) for message in messages])}

    def replied(self, record: ModelReplied) -> dict[str, str]:
        """Return what a model says."""
        return {OUTPUT_MESSAGES: self._json([{**_message(record.message), "finish_reason": record.finish}])}

    def arguments(self, call: ToolCall) -> dict[str, str]:
        """Return what a tool is called with."""
        return {ARGUMENTS: self._json(call.args)}

    def result(self, result: ToolResult) -> dict[str, str]:
        """Return what a tool answers."""
        return {RESULT: self._redact_all(result.content)}

    def delegation(self, delegated: Delegated) -> dict[str, str]:
        """Return what an agent asks of the one that it delegates to."""
        return {ARGUMENTS: self._json({"objective": delegated.objective})}

    def handoff(self, context: HandoffContext) -> dict[str, str]:
        """Return what an agent tells the next one."""
        told = {"reason": context.reason, "context": context.context, "summary": context.summary}
        said = {key: value for key, value in {**told, "payload": context.payload}.items() if value is not None}
        return {ARGUMENTS: self._json(said)}

    def returned(self, returned: Returned) -> dict[str, str]:
        """Return what an agent gives back with control."""
        return {RESULT: self._redact_all(returned.text)}

    def note(self, text: str) -> dict[str, str]:
        """Return what the user, or the model, was told meanwhile."""
        return {NOTE: self._redact_all(text)}

    def _json(self, value: Any) -> str:
        return json.dumps(self._redact_all(value), ensure_ascii=False, default=str)


class Words:
    """What was said in a job, as its records tell: nothing where nobody asked for it."""

    def __init__(self, content: Content | None) -> None:
        self._content = content
        self._prompt = ""
        self._heard: list[Message] = []
        """What the next model call is told since the last one."""
        self._calls: dict[str, ToolCall] = {}

    def note(self, record: Record) -> None:
        """Keep what the spans of later records need."""
        if self._content is None:
            return
        match record:
            case JobRequested(prompt=prompt):
                self._prompt = prompt
            case HandedOff():
                self._heard = [user_message(self._prompt)]
            case ModelReplied(message=message):
                self._heard = []
                self._calls |= {call.id: call for call in message.calls}
            case ToolFinished(result=result):
                self._heard.append(answered([result]))
                self._calls.pop(result.call_id, None)

    def of(self, record: Record | ModelCall, delegated: Delegated | None = None) -> dict[str, str]:
        """Return what the span of ``record`` says; ``delegated``: the call that it answers, if another job did."""
        if (content := self._content) is None:
            return {}
        match record:
            case ModelReplied():
                return content.heard(self._heard) | content.replied(record)
            case ToolFinished(result=result):
                return self._asked(content, result.call_id, delegated) | content.result(result)
            case HandedOff(context=context):
                return content.returned(context.returned) if context.returned else content.handoff(context)
            case (
                Noticed(text=text)
                | Recalled(text=text)
                | Nudged(text=text)
                | LimitNear(text=text)
                | LoopDetected(text=text)
                | LastTurn(text=text)
                | Hooked(text=text)
                | Guarded(text=text)
            ):
                return content.note(text)
            case _:
                return {}

    def _asked(self, content: Content, call_id: str, delegated: Delegated | None) -> dict[str, str]:
        if delegated is not None:
            return content.delegation(delegated)
        call = self._calls.get(call_id)
        return content.arguments(call) if call else {}


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
