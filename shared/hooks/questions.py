"""What commands that are hooks read: JSON, in gemini-cli's words, with Claude Code's where they are its own."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from ekiden.shared.hook_entries import HookEntry
from ekiden.shared.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, BeforeToolSelection, Event
from ekiden.shared.hooks.occasions import BeforeHandoff
from ekiden.shared.hooks.tool_words import their_args, their_name
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import Message, ToolCall

__all__ = ["asked", "said_in"]

_OCCASIONS = {
    "SessionStart": {"source": "source"},
    "SessionEnd": {"reason": "status", "prompt_response": "answer"},
    "BeforeRoute": {"prompt": "prompt", "agents": "agents", "agent": "agent"},
    "BeforeAgent": {"prompt": "prompt"},
    "AfterAgent": {
        "prompt": "prompt",
        "prompt_response": "answer",
        "last_assistant_message": "answer",
        "output": "output",
        "stop_hook_active": "is_retry",
    },
    "AfterHandoff": {"from_agent": "came_from", "reason": "reason"},
    "PreCompress": {"trigger": "trigger", "tokens": "tokens"},
    "Notification": {"notification_type": "kind", "message": "message", "details": "details"},
}
"""By event: a word, and the field that it says."""


def asked(event: Event, entry: HookEntry) -> str:
    """Return what the command reads."""
    place = event.place
    common = {
        "session_id": place.session,
        "transcript_path": "",
        "cwd": place.cwd,
        "hook_event_name": entry.written or event.name,
        "timestamp": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds"),
        "job_id": place.job,
        "agent": place.agent,
        "leg": place.leg,
        "turn": place.turn,
    }
    return json.dumps(common | _about(event, entry.form), ensure_ascii=False) + "\n"


def _about(event: Event, form: str) -> dict[str, Any]:
    """Return what is special to the event."""
    match event:
        case BeforeHandoff(call=call, to=to):
            return {**_call(call, form), "to_agent": to, "is_automatic": event.is_automatic}
        case BeforeTool(call=call):
            return _call(call, form)
        case AfterTool(call=call, result=result):
            response = {"llmContent": result.content, "error": result.content if result.is_error else None}
            return {**_call(call, form), "tool_response": response}
        case BeforeToolSelection(request=request) | BeforeModel(request=request):
            return {"llm_request": _request(request)}
        case AfterModel(request=request, reply=reply):
            return {"llm_request": _request(request), "llm_response": _reply(reply)}
        case _:
            return {word: getattr(event, field) for word, field in _OCCASIONS[event.name].items()}


def _call(call: ToolCall, form: str) -> dict[str, Any]:
    return {"tool_name": their_name(call.name, form), "tool_input": their_args(call, form), "tool_use_id": call.id}


def _request(request: ModelRequest) -> dict[str, Any]:
    """Return a request's texts; calls have none, as in gemini-cli."""
    system = {"role": "system", "content": request.instructions}
    messages = [{"role": _role(message), "content": said_in(message)} for message in request.messages]
    return {"model": request.model, "messages": [system, *messages], "config": {"temperature": request.temperature}}


def _role(message: Message) -> str:
    return "model" if message.role == "model" else "user"


def said_in(message: Message) -> str:
    """Return a message's text; of one with results, theirs."""
    return "\n".join(result.content for result in message.results) if message.results else message.text


def _reply(reply: ModelReply) -> dict[str, Any]:
    content = {"role": "model", "parts": [reply.message.text]}
    return {"text": reply.message.text, "candidates": [{"content": content, "finishReason": reply.finish}]}
