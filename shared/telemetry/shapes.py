"""Spans and attributes that are made in more than one place: of messages, pauses and calls of agents."""

from typing import Any

from ekiden.shared.ids import session_of
from ekiden.shared.stores.submissions import ChildSubmission
from ekiden.shared.telemetry import names
from ekiden.shared.telemetry.identity import Root, read_traceparent
from ekiden.shared.telemetry.spans import Span, SpanKind

__all__ = ["agent_call", "begun", "messaging", "sent", "suspension"]


def messaging(operation: str, queue: str, message_id: str, job: str) -> dict[str, Any]:
    """Return the attributes of a message's way: ``send`` or ``process``."""
    return {
        names.MESSAGING: "celery",
        names.MESSAGING_TYPE: operation,
        names.MESSAGING_NAME: operation,
        names.DESTINATION: queue,
        names.MESSAGE: message_id,
        names.MESSAGE_CONVERSATION: job,
    }


def sent(root: Root, queue: str, handoff_id: str, job: str, parent_id: int) -> Span:
    """Return the span of a send, begun now: whoever takes the message links to it."""
    attributes = {**messaging("send", queue, handoff_id, job), names.CONVERSATION: session_of(job)}
    return Span(root, f"send {queue}", parent_id, attributes, SpanKind.PRODUCER, root.send(handoff_id))


def begun(submission: ChildSubmission, parent_id: int) -> Span | None:
    """Return the span of the send that begins a child job; None: the child is not traced."""
    child = submission.child
    root = read_traceparent(child.context.metadata.traceparent)
    if root is None or not root.sampled:
        return None
    return sent(root, submission.outbox.queue, child.context.metadata.handoff_id, child.job, parent_id)


def suspension(root: Root, job: str, leg: int, cause: str, from_ms: int) -> Span:
    """Return the span of a pause, which nobody works in: whoever goes on records it."""
    attributes = {names.SUSPEND_CAUSE: cause, names.CONVERSATION: session_of(job), names.JOB: job, names.LEG: leg}
    span_id = root.derive("suspended", leg, from_ms)
    return Span(root, f"suspended {cause}", root.span_id, attributes, span_id=span_id, began_ns=from_ms * 1_000_000)


def agent_call(tool: str, call_id: str | None) -> dict[str, Any]:
    """Return the attributes of a call that another agent answers; ``call_id`` None: the agent's file made it."""
    attributes = {names.OPERATION: "execute_tool", names.TOOL: tool, names.TOOL_TYPE: "function"}
    return attributes if call_id is None else {**attributes, names.CALL_ID: call_id}
