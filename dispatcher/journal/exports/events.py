"""A story as a list of trace events: calls of models and tools, routes and handoffs, each with what it took."""

from collections.abc import Iterator
from typing import Any

from ekiden.dispatcher.journal.exports.content import error_of, reply_of, result_of, tool_of
from ekiden.dispatcher.journal.story import Leg, Step, StepKind, Story
from ekiden.shared.messages import Message
from ekiden.shared.records import Decided, Guarded, Routed, RoutingStage
from ekiden.shared.redaction import redact, redact_all

__all__ = ["trace_events"]

_TYPES: dict[StepKind, str] = {"route": "route", "model": "llm_call", "tool": "tool_call", "guardrail": "guardrail"}
_TYPES |= {
    "approval": "tool_confirmation",
    "handoff": "handoff",
    "edge": "handoff",
    "refused": "handoff",
    "returned": "handoff",
    "delegated": "tool_call",
}


def trace_events(story: Story, *, content: bool) -> list[dict[str, Any]]:
    """Return the events, oldest first, those of a child job behind its delegation; times are ms.

    ``content``: also what was asked, said and handed over.
    """
    return list(_events(story, content=content))


def _events(story: Story, *, content: bool) -> Iterator[dict[str, Any]]:
    for leg in story.legs:
        if leg.number and leg.attempts:
            yield _begun(story, leg, content=content)
        for step in leg.steps:
            if step.kind in _TYPES:
                yield _event(story, leg, step, content=content)
            if (child := story.children.get(step.child)) is not None:
                yield from _events(child, content=content)
        if leg.number and leg.attempts and leg.left_ms is not None:
            yield _ended(story, leg, leg.left_ms, content=content)


def _begun(story: Story, leg: Leg, *, content: bool) -> dict[str, Any]:
    """Return that an agent has begun, with what it was asked."""
    heard = next((step.heard for step in leg.steps if step.kind == "model"), ())
    asked = "\n\n".join(text for message in heard for text in _read(message))
    event = _of_agent("agent_start", story, leg, leg.attempts[0].start_ms)
    return event | {"details": {"agent_name": leg.agent} | ({"prompt": redact(asked)} if content else {})}


def _ended(story: Story, leg: Leg, left_ms: int, *, content: bool) -> dict[str, Any]:
    """Return that an agent has handed over, answered, or failed, with the time from its beginning on."""
    end = story.end if leg is story.legs[-1] else None
    moved = leg.steps[-1] if leg.steps else None
    is_error = (
        end.status in ("failed", "dead") if end else moved is not None and moved.kind == "returned" and moved.is_error
    )
    event = _of_agent("agent_error" if is_error else "agent_complete", story, leg, left_ms)
    event["duration_ms"] = left_ms - leg.attempts[0].start_ms
    if is_error:
        said = (end.error if end else moved and moved.detail) or ""
        event["error"] = redact(said) if content else (end.reason if end else "no_result")
    return event | {"details": {"agent_name": leg.agent}}


def _of_agent(kind: str, story: Story, leg: Leg, at_ms: int) -> dict[str, Any]:
    return {
        "event_id": f"{story.job}:{kind}-{leg.number}",
        "event_type": kind,
        "timestamp": at_ms,
        "session_id": story.session,
        "agent_name": leg.agent,
        "correlation_id": story.correlation_id,
    }


def _event(story: Story, leg: Leg, step: Step, *, content: bool) -> dict[str, Any]:
    event: dict[str, Any] = {
        "event_id": f"{story.job}:{step.seq}",
        "event_type": _TYPES[step.kind],
        "timestamp": step.start_ms,
        "session_id": story.session,
        "agent_name": leg.agent,
        "correlation_id": story.correlation_id,
        "details": _details(leg, step, content=content) | (_content(step) if content else {}),
    }
    if step.end_ms is not None:
        event["duration_ms"] = step.end_ms - step.start_ms
    if (error := error_of(step, content=content)) is not None:
        event["error"] = error
    return event


def _details(leg: Leg, step: Step, *, content: bool) -> dict[str, Any]:
    match step.kind:
        case "model":
            usage = step.usage
            tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
            return {"model": step.name, "tokens": tokens}
        case "tool":
            return {"tool_name": tool_of(step, content=content)}
        case "route":
            chosen = step.record if isinstance(step.record, Routed) else None
            stages = [_stage(stage, content=content) for stage in step.stages]
            return {
                "routing_method": chosen and chosen.stage,
                "routing_confidence": chosen.confidence if chosen else 0.0,
                "to_agent": chosen and chosen.agent,
                **({"stages": stages} if stages else {}),
            }
        case "approval" | "guardrail":
            return _judgement(step, content=content)
        case "handoff" | "edge":
            return {"from_agent": leg.agent, "to_agent": step.name}
        case "returned":
            return {"from_agent": leg.agent, "to_agent": step.name, "returned": True}
        case "delegated":
            return {"tool_name": tool_of(step, content=content), "to_agent": step.name, "child_job": step.child}
        case _:
            return {"from_agent": leg.agent, "tool_name": tool_of(step, content=content)}


def _judgement(step: Step, *, content: bool) -> dict[str, Any]:
    """Return what a person, or a guardrail, has said."""
    said = step.record
    if not isinstance(said, Guarded):
        return {"tool": tool_of(step, content=content), "approved": _is_approved(step)}
    return {
        "name": said.rail,
        "at": said.at,
        "policy": said.policy,
        "status": said.status,
        "passed": said.status == "passed",
    }


def _is_approved(step: Step) -> bool | None:
    """Tell what a person said to a call; None: nothing yet."""
    return step.record.status in ("approved", "answered") if isinstance(step.record, Decided) else None


def _stage(stage: RoutingStage, *, content: bool) -> dict[str, Any]:
    """Return what a stage of the routing found; its note may hold a model's words."""
    found: dict[str, Any] = redact_all(stage.model_dump(mode="json", exclude=set() if content else {"note"}))
    return found


def _content(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = redact_all(_words(step))
    return found


def _read(message: Message) -> list[str]:
    """Return what a model reads of a message: a text, or results of tools behind their names."""
    return [message.text] if message.text else [f"{one.name}: {one.content}" for one in message.results]


def _words(step: Step) -> dict[str, Any]:
    match step.kind:
        case "model":
            reply = reply_of(step)
            prompt = "\n\n".join(text for message in step.heard for text in _read(message))
            return {"prompt": prompt, "response": reply.text if reply else ""}
        case "tool" | "delegated":
            result = result_of(step)
            given = {"tool_error" if step.is_error else "tool_result": result} if result is not None else {}
            return {"tool_args": step.call.args if step.call else {}} | given
        case "handoff" | "edge":
            return {"handoff_reason": step.detail}
        case "returned":
            return {"handoff_result": step.detail}
        case "guardrail":
            return {"errors": list(step.record.errors)} if isinstance(step.record, Guarded) else {}
        case "refused":
            return {"tool_args": step.call.args if step.call else {}}
        case "approval":
            return {"args": step.call.args if step.call else {}, "decision": step.detail}
        case _:
            return {}
