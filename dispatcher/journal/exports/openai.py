"""A story as the OpenAI Agents SDK exports its traces: a trace and spans of agents, generations, functions, handoffs.

Source: ``agents.tracing`` of openai-agents (``Trace.export``, ``Span.export``, ``span_data``). The document is what its
exporter posts, so that tools which read those traces read these.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ekiden.dispatcher.journal.exports.content import (
    arguments_of,
    error_of,
    message_parts,
    reply_of,
    result_of,
    tool_of,
)
from ekiden.dispatcher.journal.story import Attempt, Leg, Step, StepKind, Story
from ekiden.shared.ids import root_of
from ekiden.shared.messages import Message

__all__ = ["openai_trace"]

_MOVES: tuple[StepKind, ...] = ("handoff", "edge", "returned", "route")
_SHOWN: tuple[StepKind, ...] = ("model", "tool", *_MOVES, "delegated", "refused")


def openai_trace(story: Story, *, content: bool) -> dict[str, Any]:
    """Return the trace and its spans, the outer ones first. ``content``: also what was asked, said and returned."""
    trace = {
        "object": "trace",
        "id": f"trace_{_digest(root_of(story.job))[:32]}",
        "workflow_name": "ekiden",
        "group_id": story.session,
        "metadata": {"job": story.job, "status": story.end.status if story.end else "running"},
    }
    return {"data": [trace, *({**span, "trace_id": trace["id"]} for span in _job(story, None, content=content))]}


def _job(story: Story, above: str | None, *, content: bool) -> Iterator[dict[str, Any]]:
    """Yield the spans of a job below span ``above``, and those of its children below their calls."""
    for leg in story.legs:
        for attempt in leg.attempts:
            yield from _spans(story, leg, attempt, above, content=content)
        for step in leg.steps:
            if (child := story.children.get(step.child)) is not None:
                yield from _job(child, _span_id(story, f"seq {step.seq}"), content=content)


def _spans(story: Story, leg: Leg, attempt: Attempt, above: str | None, *, content: bool) -> list[dict[str, Any]]:
    agent_id = _span_id(story, f"leg {leg.number} {attempt.number}")
    handoffs = [step.name for step in attempt.steps if step.kind in ("handoff", "edge")]
    tools = sorted({tool_of(step, content=content) for step in attempt.steps if step.kind in ("tool", "delegated")})
    data = {"type": "agent", "name": leg.agent, "handoffs": handoffs, "tools": tools, "output_type": "str"}
    error = "worker_lost" if attempt.end == "lost" else None
    agent = _span(agent_id, above, attempt.start_ms, attempt.end_ms, data, error)
    return [agent] + [
        _span(
            _span_id(story, f"seq {step.seq}"),
            agent_id,
            step.start_ms,
            step.end_ms,
            _data(leg, step, content=content),
            error_of(step, content=content),
        )
        for step in attempt.steps
        if step.kind in _SHOWN
    ]


def _span(
    span_id: str, parent_id: str | None, start_ms: int, end_ms: int | None, data: dict[str, Any], error: str | None
) -> dict[str, Any]:
    return {
        "object": "trace.span",
        "id": span_id,
        "trace_id": "",
        "parent_id": parent_id,
        "started_at": _iso(start_ms),
        "ended_at": None if end_ms is None else _iso(end_ms),
        "span_data": data,
        "error": None if error is None else {"message": error, "data": None},
    }


def _data(leg: Leg, step: Step, *, content: bool) -> dict[str, Any]:
    match step.kind:
        case "model":
            reply = reply_of(step)
            usage = {"input_tokens": step.usage.input_tokens, "output_tokens": step.usage.output_tokens}
            return {
                "type": "generation",
                "input": [said for message in step.heard for said in _messages(message)] if content else None,
                "output": _messages(reply) if content and reply else None,
                "model": step.name,
                "model_config": None,
                "usage": usage,
            }
        case kind if kind in _MOVES:
            nobody = step.kind == "route" and step.is_error
            return {"type": "handoff", "from_agent": leg.agent, "to_agent": None if nobody else step.name}
        case _:
            return {
                "type": "function",
                "name": tool_of(step, content=content),
                "input": arguments_of(step) if content else None,
                "output": result_of(step) if content else None,
                "mcp_data": None,
            }


def _messages(message: Message) -> list[dict[str, Any]]:
    """Return a message as that SDK writes it: one of the assistant, one of the user, or one per result of a tool."""
    parts = message_parts(message)
    if message.role == "tool":
        return [{"role": "tool", "tool_call_id": part["id"], "content": part["response"]} for part in parts]
    text = "".join(part["content"] for part in parts if part["type"] == "text")
    if message.role == "user":
        return [{"role": "user", "content": text}]
    calls = [_call(part) for part in parts if part["type"] == "tool_call"]
    return [{"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})]


def _call(part: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(part["arguments"], ensure_ascii=False)
    return {"id": part["id"], "type": "function", "function": {"name": part["name"], "arguments": arguments}}


def _span_id(story: Story, what: str) -> str:
    return f"span_{_digest(f'{story.job} {what}')[:24]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
