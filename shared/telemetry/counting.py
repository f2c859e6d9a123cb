"""The hook that counts: metrics of legs, calls, jobs and queues."""

import time
from collections.abc import Mapping, Sequence

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.transfer_names import delegation_tool_name
from ekiden.shared.hooks.base import Hook, LegHook, QueueGauge
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import ToolResult
from ekiden.shared.outcomes import Answer, Outcome, Suspended
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    GRAPH,
    Decided,
    Delegated,
    Ended,
    Entry,
    Forked,
    Guarded,
    HandedOff,
    JobRequested,
    LastTurn,
    LegStarted,
    LegSuspended,
    ModelCall,
    ModelReplied,
    NodeFinished,
    Record,
    Refused,
    Retried,
    Routed,
    ToolFinished,
    Unrouted,
)
from ekiden.shared.stores.base import Claimed, CommitVerdict
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.tracing import semconv

__all__ = ["Counting", "LegCounting"]

_READY = (Decided, Forked, JobRequested, HandedOff, LegSuspended, Retried)
"""After these a leg waits for a worker; after any other record its worker has died."""


class Counting(Hook):
    """Counts what happens in a process."""

    def __init__(self, meters: Meters, prices: Prices) -> None:
        self._meters = meters
        self._prices = prices

    def leg_claimed(self, claimed: Claimed, queue: str) -> LegHook:
        """See ``Hook``."""
        return LegCounting(self._meters, self._prices, claimed.context.to_agent)

    def leg_requeued(self, job: str) -> None:
        """See ``Hook``."""
        self._meters.count("messages.republished")

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        """See ``Hook``; how long it took counts from its last retry."""
        end = next((entry.record for entry in records if isinstance(entry.record, Ended)), None)
        begun = [entry.at_ms for entry in entries if isinstance(entry.record, Forked | JobRequested | Retried)]
        if end is not None and begun:  # else a newer program wrote the journal
            self._meters.job_ended(end.status, end.reason, max(0.0, time.time() - begun[-1] / 1000))

    def leases_renewed_late(self, late_s: float) -> None:
        """See ``Hook``."""
        self._meters.renewed_late(late_s)

    def queues_seen(self, gauges: Sequence[QueueGauge]) -> None:
        """See ``Hook``."""
        for gauge in gauges:
            self._meters.queue(gauge.agent, gauge.depth, gauge.age_s)

    def suspensions_seen(self, jobs: Mapping[str, int]) -> None:
        """See ``Hook``."""
        for cause, count in jobs.items():
            self._meters.suspended(cause, count)

    def circuits_seen(self, models: Sequence[str]) -> None:
        """See ``Hook``."""
        self._meters.circuits(models)

    def close(self) -> None:
        """See ``Hook``."""
        self._meters.close()


class LegCounting(LegHook):
    """Counts what happens in one attempt at a leg."""

    def __init__(self, meters: Meters, prices: Prices, agent: str) -> None:
        self._meters = meters
        self._prices = prices
        self._agent = agent
        self._offered: frozenset[str] = frozenset()
        self._delegated: dict[str, str] = {}
        """The agents whose results are still to come, by the call."""
        self._called_at = 0.0
        meters.leg_begun(agent)

    def opened(self, entries: Sequence[Entry]) -> None:
        """See ``LegHook``: the journal tells how the leg came here, by the server's clock."""
        for entry in entries:
            self._note(entry.record)
        ours = max((at for at, entry in enumerate(entries) if isinstance(entry.record, LegStarted)), default=0)
        if not ours:
            return
        before = entries[ours - 1]
        if not isinstance(before.record, _READY):
            self._meters.count("recoveries", agent=self._agent)
            return
        paused = before.record if isinstance(before.record, LegSuspended) else None
        if paused is None or paused.cause != "children":  # whose ends, which wake the leg, are in other journals
            wait_ms = entries[ours].at_ms - before.at_ms - (paused.delay_s * 1000 if paused else 0)
            self._meters.waited(self._agent, max(0.0, wait_ms) / 1000)

    def agent_started(self, definition: AgentDefinition, model: str, tools: Sequence[str]) -> None:
        """See ``LegHook``."""
        self._offered = frozenset(tools)

    def model_called(self, request: ModelRequest, *, is_stream: bool) -> None:
        """See ``LegHook``."""
        self._called_at = time.monotonic()

    def model_replied(self, request: ModelRequest, reply: ModelReply) -> None:
        """See ``LegHook``."""
        self._meters.model_called(self._agent, request.model, time.monotonic() - self._called_at, None)

    def model_failed(self, request: ModelRequest, error: BaseException) -> None:
        """See ``LegHook``."""
        kind = type(error).__qualname__
        self._meters.model_called(self._agent, request.model, time.monotonic() - self._called_at, kind)

    def recorded(self, entries: Sequence[Entry]) -> None:
        """See ``LegHook``."""
        for entry in entries:
            self._note(entry.record)
            self._count(entry.record)

    def committed(self, outcome: Outcome, verdict: CommitVerdict) -> None:
        """See ``LegHook``."""
        if verdict == "ok" and isinstance(outcome, Answer) and outcome.recovered:
            self._meters.count("legs.recovered", agent=self._agent, reason=outcome.reason)
        if verdict == "ok" and isinstance(outcome, Suspended):
            self._meters.count("legs.suspended", cause=outcome.cause)
            if outcome.cause == "retry" and outcome.delay_s > 0:
                self._meters.model_waited(self._agent, outcome.delay_s)

    def left(self, error: BaseException | None) -> None:
        """See ``LegHook``."""
        self._meters.leg_left(self._agent)

    def _note(self, record: Record) -> None:
        if isinstance(record, Delegated):
            self._delegated[record.call_id] = record.agent

    def _tool_of(self, result: ToolResult) -> str:
        """Return a tool's name; what a model made up is no name but its words."""
        if (agent := self._delegated.pop(result.call_id, None)) is not None:
            return delegation_tool_name(agent)
        is_known = result.name in self._offered or result.name.startswith("transfer_to_")
        return result.name if is_known else semconv.OTHER

    def _count(self, record: Record) -> None:
        match record:
            case ModelCall():
                self._replied(record)
            case ToolFinished(result=result):
                outcome = "error" if result.is_error else "success"
                self._meters.tool_called(self._agent, self._tool_of(result), outcome)
            case LastTurn(reason=reason):
                self._meters.count("legs.last_turns", agent=self._agent, reason=reason)
            case Guarded(rail=rail, at=at, status=status):
                self._meters.count("guardrails", agent=self._agent, guardrail=rail, at=at, status=status)
            case Refused():
                self._meters.count("handoffs.refused", agent=self._agent, code=record.code)
            case Routed() | Unrouted():
                self._meters.count("routes", stage=record.stage if isinstance(record, Routed) else "none")
            case HandedOff(kind="handoff", context=context):
                self._meters.count("handoffs", source=self._agent, target=context.to_agent)
            case NodeFinished(graph=graph, node=node, next=taken):
                for to in taken:
                    self._meters.count("graph.edges", graph=graph, source=node, target=to)

    def _replied(self, record: ModelCall) -> None:
        if record.model == GRAPH:  # no model: a node's own call
            return
        if isinstance(record, ModelReplied):
            self._meters.count("turns", agent=self._agent)
        cost_usd = self._prices.cost_usd(record.model, record.usage)
        self._meters.tokens_used(self._agent, record.model, record.usage, cost_usd)
