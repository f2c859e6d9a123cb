"""The spans of a job, one maker for each kind: what they are called, whose children they are, what they say."""

from collections.abc import Iterator
from typing import Any

from ekiden.shared.definitions.transfer_names import delegation_tool_name, transfer_tool_name
from ekiden.shared.ids import session_of
from ekiden.shared.records import (
    Delegated,
    Entry,
    FellBack,
    Guarded,
    GuardJudged,
    HandedOff,
    LegStarted,
    LegSuspended,
    ModelCall,
    ModelReplied,
    Refused,
    Repairing,
    Routed,
    RoutingStage,
    Summarised,
    Unrouted,
)
from ekiden.shared.settings.tracing import TracingEvent
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.spans import Kind, Link, Span
from ekiden.shared.tracing.trace_ids import Root

__all__ = ["Caller", "delivery", "delivery_id", "ns", "send", "suspension"]


def ns(at_ms: float) -> int:
    """Return a time of the journal in ns."""
    return round(at_ms * 1_000_000)


def send(root: Root, job: str, leg: int, queue: str, parent_id: int, began_ns: int) -> Span:
    """Return the span of the message that wakes ``leg``."""
    attributes = {**_messaging("send", queue, job, leg), semconv.CONVERSATION: session_of(job)}
    return Span(root, root.send(leg), parent_id, f"send {queue}", began_ns, attributes, kind=Kind.PRODUCER)


def delivery_id(root: Root, seq: int) -> int:
    """Return the id of the span of an attempt at a leg, by its first record."""
    return root.step(seq, "process")


def delivery(root: Root, job: str, started: LegStarted, entry: Entry, queue: str) -> Span:
    """Return the span of one attempt at a leg: a child of the root wherever and how often the leg is delivered."""
    attributes = {
        **_messaging("process", queue, job, started.leg),
        semconv.CONVERSATION: session_of(job),
        semconv.LEG: started.leg,
        semconv.ATTEMPT: started.attempt,
        semconv.WORKER: started.worker,
    }
    span = Span(root, delivery_id(root, entry.seq), root.span_id, f"process {queue}", ns(entry.at_ms), attributes)
    span.kind = Kind.CONSUMER
    span.links.append(Link(root.send(started.leg), "send"))
    return span


def suspension(root: Root, job: str, paused: LegSuspended, entry: Entry) -> Span:
    """Return the span of a pause, which nobody works in."""
    attributes = {
        semconv.SUSPEND_CAUSE: paused.cause,
        semconv.CONVERSATION: session_of(job),
        semconv.JOB: job,
        semconv.LEG: paused.leg,
    }
    return Span(root, root.step(entry.seq), root.span_id, f"suspended {paused.cause}", ns(entry.at_ms), attributes)


class Caller:
    """Makes the spans of what an agent, or the router, calls: they are children of its own."""

    def __init__(self, root: Root, job: str, agent: str, holder_id: int) -> None:
        self._root = root
        self._agent = agent
        self._about = {semconv.CONVERSATION: session_of(job), semconv.AGENT: agent}
        self.holder_id = holder_id

    def invocation(self, began_ms: int, parent_id: int) -> Span:
        """Return the agent's own span."""
        attributes = {semconv.OPERATION: "invoke_agent", **self._about}
        return Span(self._root, self.holder_id, parent_id, f"invoke_agent {self._agent}", ns(began_ms), attributes)

    def model(self, record: ModelCall, entry: Entry, cost_usd: float | None) -> Span:
        """Return a model call that was answered."""
        began_ns = ns(entry.at_ms - record.duration_ms)
        span = self.model_call(self._root.step(entry.seq), record.model, began_ns)
        span.attributes |= {
            semconv.RESPONSE_MODEL: record.model,
            semconv.FINISH_REASONS: (_finish_of(record),),
            semconv.INPUT_TOKENS: record.usage.input_tokens,
            semconv.OUTPUT_TOKENS: record.usage.output_tokens,
        }
        if isinstance(record, Summarised):
            span.attributes[semconv.PURPOSE] = record.purpose
        if isinstance(record, Repairing):
            span.attributes[semconv.PURPOSE] = "repair"
        if isinstance(record, GuardJudged):
            span.attributes[semconv.PURPOSE] = "guardrail"
        if isinstance(record, FellBack):
            span.fail(record.why)
            span.attributes[semconv.FALLBACK] = record.to
        if cost_usd is not None:
            span.attributes[semconv.COST] = cost_usd
        return span.ended(ns(entry.at_ms))

    def model_call(self, span_id: int, model: str, began_ns: int) -> Span:
        """Return a model call that begins."""
        operation = semconv.operation_of(model)
        attributes = {
            semconv.OPERATION: operation,
            semconv.PROVIDER: semconv.provider_of(model),
            semconv.REQUEST_MODEL: model,
        }
        return self._span(span_id, f"{operation} {model}", began_ns, attributes, "llm", Kind.CLIENT)

    def tool(self, call_id: str, name: str, entry: Entry) -> Span:
        """Return a tool call that begins, under a name that may be told."""
        attributes = _call(name, call_id)
        return self._span(self._root.step(entry.seq), f"execute_tool {name}", ns(entry.at_ms), attributes, "tool")

    def delegation(self, record: Delegated, entry: Entry) -> Span:
        """Return the call of a child job, which lasts until its result is there."""
        span = self.tool(record.call_id, delegation_tool_name(record.agent), entry)
        span.attributes[semconv.CHILD] = record.child
        span.links.append(Link(self._root.child(record.child), "child"))
        return span

    def stages(self, record: Routed | Unrouted, entry: Entry, began_ns: int) -> Iterator[Span]:
        """Yield what each stage of a routing took, and the call of the one that asks a model."""
        stages = record.stages
        if isinstance(record, Routed) and not stages:  # of what the user named there is no stage
            stages = (RoutingStage(stage=record.stage, agent=record.agent, confidence=record.confidence, decided=True),)
            began_ns = ns(entry.at_ms)
        for number, stage in enumerate(stages):
            ended_ns = began_ns + ns(stage.duration_ms)
            if stage.model:
                call = self.model_call(self._root.step(entry.seq, f"model {number}"), stage.model, began_ns)
                call.attributes |= {
                    semconv.INPUT_TOKENS: stage.usage.input_tokens,
                    semconv.OUTPUT_TOKENS: stage.usage.output_tokens,
                    **({} if stage.cost_usd is None else {semconv.COST: stage.cost_usd}),
                }
                yield call.ended(ended_ns)
            yield self._stage(self._root.step(entry.seq, f"stage {number}"), stage, began_ns).ended(ended_ns)
            began_ns = ended_ns

    def refusal(self, record: Refused, entry: Entry, began_ns: int) -> Span:
        """Return a handoff that was not carried out."""
        name = semconv.OTHER if record.code == "UNKNOWN_AGENT" else record.name
        attributes = {**_call(name, record.call_id), semconv.CODE: record.code}
        span = self._span(self._root.step(entry.seq), f"execute_tool {name}", began_ns, attributes, "handoff")
        span.fail(record.code)
        return span.ended(ns(entry.at_ms))

    def guarded(self, record: Guarded, entry: Entry, began_ns: int) -> Span:
        """Return what a guardrail has said."""
        attributes = {
            semconv.GUARDRAIL: record.rail,
            semconv.GUARDED_AT: record.at,
            semconv.GUARD_POLICY: record.policy,
            semconv.GUARD_STATUS: record.status,
        }
        span = self._span(self._root.step(entry.seq), f"guardrail {record.rail}", began_ns, attributes, "guardrail")
        if record.status == "failed":
            span.fail("guardrail")
        return span.ended(ns(entry.at_ms))

    def move(self, record: HandedOff, entry: Entry, began_ns: int) -> Span:
        """Return a handoff: a call of the agent's, what its file asked for, or the return to who waits for it."""
        context = record.context
        attributes = {
            semconv.TARGET: context.to_agent,
            semconv.HANDOFF_ID: context.metadata.handoff_id,
            semconv.DEPTH: context.metadata.chain_depth,
        }
        name = _move_name(record)
        if record.call_id is not None:
            attributes |= _call(transfer_tool_name(context.to_agent), record.call_id)
        if record.kind == "handoff":
            attributes[semconv.TRANSFER_MODE] = "pass_control"
        span = self._span(self._root.step(entry.seq), name, began_ns, attributes, "handoff")
        if context.returned is not None and context.returned.is_error:
            span.fail("no_result")
        return span.ended(ns(entry.at_ms))

    def _stage(self, span_id: int, stage: RoutingStage, began_ns: int) -> Span:
        attributes = {
            semconv.ROUTE_STAGE: stage.stage,
            semconv.ROUTE_SCORE: stage.score,
            semconv.ROUTE_CONFIDENCE: stage.confidence,
            semconv.ROUTE_DECIDED: stage.decided,
            **({semconv.TARGET: stage.agent} if stage.agent else {}),
            **({semconv.REQUEST_MODEL: stage.model} if stage.model else {}),
        }
        return self._span(span_id, f"route {stage.stage}", began_ns, attributes, "route")

    def _span(
        self,
        span_id: int,
        name: str,
        began_ns: int,
        attributes: dict[str, Any],
        event: TracingEvent,
        kind: Kind = Kind.INTERNAL,
    ) -> Span:
        attributes |= self._about
        return Span(self._root, span_id, self.holder_id, name, began_ns, attributes, event, kind)


def _move_name(record: HandedOff) -> str:
    agent = record.context.to_agent
    return f"{record.kind} {agent}" if record.call_id is None else f"execute_tool {transfer_tool_name(agent)} {agent}"


def _messaging(operation: str, queue: str, job: str, leg: int) -> dict[str, Any]:
    """Return the attributes of a message's way: ``send`` or ``process``."""
    return {
        semconv.MESSAGING: "celery",
        semconv.MESSAGING_TYPE: operation,
        semconv.MESSAGING_NAME: operation,
        semconv.DESTINATION: queue,
        semconv.MESSAGE: f"{job}:{leg}",
        semconv.MESSAGE_CONVERSATION: job,
    }


def _call(tool: str, call_id: str | None) -> dict[str, Any]:
    """Return the attributes of a tool call; ``call_id`` None: the agent's file made it."""
    attributes = {semconv.OPERATION: "execute_tool", semconv.TOOL: tool, semconv.TOOL_TYPE: "function"}
    return attributes if call_id is None else {**attributes, semconv.CALL_ID: call_id}


def _finish_of(record: ModelCall) -> str:
    if isinstance(record, FellBack):
        return "refused" if record.why == "refused" else "error"
    return record.finish if isinstance(record, ModelReplied) else "stop"
