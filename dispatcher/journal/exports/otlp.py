"""A story as OTLP JSON: the spans that a collector would have had, by the GenAI conventions.

Source: the OTLP specification's JSON mapping (ids in hexadecimal, 64-bit integers as texts). Ids are made of the job's:
the same whenever it is exported, so that a second import adds nothing.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from ekiden.dispatcher.journal.exports.content import (
    arguments_of,
    error_of,
    message_parts,
    reply_of,
    result_of,
    tool_of,
)
from ekiden.dispatcher.journal.story import Attempt, Leg, Step, Story
from ekiden.shared.ids import root_of
from ekiden.shared.records import Routed
from ekiden.shared.redaction import redact_all
from ekiden.shared.telemetry import names
from ekiden.shared.version import VERSION

__all__ = ["otlp_trace"]

_INTERNAL, _CLIENT = 1, 3
_ERROR = 2


def otlp_trace(story: Story, *, content: bool) -> dict[str, Any]:
    """Return a document as OTLP/HTTP takes it. ``content``: also what was asked, said and returned."""
    spans = list(_job(story, None, content=content))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "ekiden", "service.version": VERSION})},
                "scopeSpans": [{"scope": {"name": "ekiden.journal", "version": VERSION}, "spans": spans}],
            }
        ]
    }


def _job(story: Story, call: str | None, *, content: bool) -> Iterator[dict[str, Any]]:
    """Yield the spans of a job, and of its children below their calls; ``call`` is the span of its own, if it has one.

    Each attempt is linked to what caused it.
    """
    root = _root(story)
    yield root if call is None else {**root, "parentSpanId": call}
    cause = call
    for leg in story.legs:
        for attempt in leg.attempts:
            yield from _Spans(story, leg, attempt, content=content).all(cause)
            cause = _span_id(story, f"leg {leg.number} {attempt.number}")
        for step in leg.steps:
            if step.kind in ("handoff", "returned", "route"):
                cause = _span_id(story, f"seq {step.seq}")
            if (child := story.children.get(step.child)) is not None:
                yield from _job(child, _span_id(story, f"seq {step.seq}"), content=content)


def _root(story: Story) -> dict[str, Any]:
    end = story.end
    agents = story.chain[1:]
    name = agents[0] if agents else "ekiden"
    attributes = {
        names.OPERATION: "invoke_workflow",
        names.WORKFLOW: name,
        names.CONVERSATION: story.session,
        names.JOB: story.job,
        names.STATUS: end.status if end else "running",
        names.REASON: end.reason if end else None,
        names.CHAIN: agents,
        names.INPUT_TOKENS: story.usage.input_tokens,
        names.OUTPUT_TOKENS: story.usage.output_tokens,
        names.COST: story.cost_usd,
    }
    error = end.reason if end and end.status != "done" else None
    return _span(story, "root", None, f"invoke_workflow {name}", story.start_ms, story.now_ms, attributes, error)


class _Spans:
    """The spans of one attempt at a leg."""

    def __init__(self, story: Story, leg: Leg, attempt: Attempt, *, content: bool) -> None:
        self._story = story
        self._leg = leg
        self._attempt = attempt
        self._content = content
        self._key = f"leg {leg.number} {attempt.number}"

    def all(self, cause: str | None) -> Iterator[dict[str, Any]]:
        """Yield the agent's span, linked to what caused it, then those of its steps."""
        attempt, leg = self._attempt, self._leg
        attributes = {
            names.OPERATION: "invoke_agent",
            names.AGENT: leg.agent,
            names.CONVERSATION: self._story.session,
            names.JOB: self._story.job,
            names.LEG: leg.number,
            names.ATTEMPT: attempt.number,
            names.WORKER: attempt.worker,
            names.QUEUE_WAIT_MS: attempt.start_ms - attempt.ready_ms,
            "ekiden.takeover": attempt.is_takeover,
        }
        end_ms = self._story.now_ms if attempt.end_ms is None else attempt.end_ms
        error = "worker_lost" if attempt.end == "lost" else None
        name = f"invoke_agent {leg.agent}"
        span = _span(self._story, self._key, "root", name, attempt.start_ms, end_ms, attributes, error)
        if cause is not None:
            span["links"] = [{"traceId": span["traceId"], "spanId": cause}]
        span["events"] = [self._event(step) for step in attempt.steps if step.kind in ("suspended", "notice")]
        yield span
        for step in attempt.steps:
            if step.kind != "notice":
                yield self._step(step)

    def _step(self, step: Step) -> dict[str, Any]:
        name, attributes = self._described(step)
        end_ms = self._story.now_ms if step.end_ms is None else step.end_ms
        error = error_of(step, content=False)
        parent = "root" if step.kind == "suspended" else self._key  # nobody works in a pause
        span = _span(self._story, f"seq {step.seq}", parent, name, step.start_ms, end_ms, attributes, error)
        if step.kind == "model":
            span["kind"] = _CLIENT
        if error and self._content:
            span["status"]["message"] = error_of(step, content=True)
        return span

    def _described(self, step: Step) -> tuple[str, dict[str, Any]]:
        match step.kind:
            case "model":
                return f"{names.operation_of(step.name)} {step.name}", self._model(step)
            case "route" if isinstance(step.record, Routed):
                route = step.record
                attributes = {
                    names.ROUTE_STAGE: route.stage,
                    names.ROUTE_SCORE: route.score,
                    names.ROUTE_CONFIDENCE: route.confidence,
                    names.TARGET: step.name,
                }
                return f"route {route.stage}", attributes
            case "route":
                return "route none", {names.ROUTE_DECIDED: False}
            case "suspended":
                return f"suspended {step.name}", {names.SUSPEND_CAUSE: step.name, names.LEG: self._leg.number}
            case "returned":
                returned = {"ekiden.handoff.result": redact_all(step.detail)} if self._content else {}
                return f"return {step.name}", {names.AGENT: self._leg.agent, names.TARGET: step.name} | returned
            case "delegated":
                tool = tool_of(step, content=self._content)
                return f"execute_tool {tool}", self._tool(step, tool) | {names.CHILD: step.child}
            case "handoff":
                tool = step.call.name if step.call else f"transfer_to_{step.name}"
                transfer = {names.TRANSFER_MODE: "pass_control", names.TARGET: step.name}
                reason = {"ekiden.handoff.reason": redact_all(step.detail)} if self._content else {}
                return f"execute_tool {tool} {step.name}", self._tool(step, tool) | transfer | reason
            case _:
                tool = tool_of(step, content=self._content)
                return f"execute_tool {tool}", self._tool(step, tool)

    def _model(self, step: Step) -> dict[str, Any]:
        reply = reply_of(step)
        attributes: dict[str, Any] = {
            names.OPERATION: names.operation_of(step.name),
            names.PROVIDER: names.provider_of(step.name),
            names.REQUEST_MODEL: step.name,
            names.AGENT: self._leg.agent,
            names.INPUT_TOKENS: step.usage.input_tokens,
            names.OUTPUT_TOKENS: step.usage.output_tokens,
            names.COST: step.cost_usd,
        }
        if self._content:
            heard = [{"role": message.role, "parts": message_parts(message)} for message in step.heard]
            said = [{"role": "assistant", "parts": message_parts(reply)}] if reply else []
            attributes[names.INPUT_MESSAGES] = json.dumps(heard, ensure_ascii=False)
            attributes[names.OUTPUT_MESSAGES] = json.dumps(said, ensure_ascii=False)
        return attributes

    def _tool(self, step: Step, tool: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            names.OPERATION: "execute_tool",
            names.TOOL: tool,
            names.CALL_ID: step.call.id if step.call else None,
            names.AGENT: self._leg.agent,
        }
        if self._content:
            attributes[names.ARGUMENTS] = arguments_of(step)
            attributes[names.RESULT] = result_of(step)
        return attributes

    def _event(self, step: Step) -> dict[str, Any]:
        attributes = {names.SUSPEND_CAUSE: step.name} if step.kind == "suspended" else {}
        if self._content:
            attributes["ekiden.detail"] = redact_all(step.detail)
        name = f"ekiden.{step.kind}"
        return {"timeUnixNano": _nanos(step.start_ms), "name": name, "attributes": _attributes(attributes)}


def _span(
    story: Story,
    key: str,
    parent: str | None,
    name: str,
    start_ms: int,
    end_ms: int,
    attributes: dict[str, Any],
    error: str | None,
) -> dict[str, Any]:
    span: dict[str, Any] = {
        "traceId": _digest(root_of(story.job))[:32],
        "spanId": _span_id(story, key),
        "parentSpanId": "" if parent is None else _span_id(story, parent),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanos(start_ms),
        "endTimeUnixNano": _nanos(end_ms),
        "attributes": _attributes(attributes | ({names.ERROR: error} if error else {})),
        "status": {"code": _ERROR, "message": error} if error else {},
    }
    return span


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value not in (None, "")]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}


def _span_id(story: Story, key: str) -> str:
    return _digest(f"{story.job} {key}")[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _nanos(at_ms: int) -> str:
    return str(at_ms * 1_000_000)
