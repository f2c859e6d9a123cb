"""One worker's stretch of a leg, and what a leg waits behind: the spans that are open in between two records."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ekiden.shared.messages import Usage
from ekiden.shared.tracing import semconv
from ekiden.shared.tracing.making import Caller
from ekiden.shared.tracing.spans import Span

__all__ = ["Attempt", "Ready", "used_up"]


class Attempt:
    """One worker's stretch of a leg, as long as it lasts."""

    def __init__(self, delivery: Span, caller: Caller, agent: Span | None) -> None:
        self.delivery = delivery
        self.caller = caller
        self.agent = agent
        self.tools: dict[str, Span] = {}
        self.usage = Usage()
        self.cost_usd: float | None = None

    @property
    def holder(self) -> Span:
        """The span that those of its steps are children of."""
        return self.agent or self.delivery

    def used(self, usage: Usage, cost_usd: float | None) -> None:
        """Add what a model call took."""
        self.usage += usage
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def ended(self, outcome: str, at_ns: int, error: str | None = None) -> Iterator[Span]:
        """End what is open, the inner spans first."""
        for tool in self.tools.values():
            tool.fail("worker_lost" if outcome == "lost" else "interrupted")
            yield tool.ended(at_ns)
        self.delivery.attributes[semconv.OUTCOME] = outcome
        if error is not None:
            self.holder.fail(error)
        if self.agent is not None:
            self.agent.attributes |= used_up(self.usage, self.cost_usd)
            yield self.agent.ended(at_ns)
        yield self.delivery.ended(at_ns)


class Ready(NamedTuple):
    """What a leg waits for a worker behind."""

    at_ms: float | None
    """Since when it could be taken; None: that is in other journals."""
    pause: Span | None = None


def used_up(usage: Usage, cost_usd: float | None) -> dict[str, Any]:
    """Return what model calls took together, as attributes."""
    cost = {} if cost_usd is None else {semconv.COST: cost_usd}
    return {semconv.INPUT_TOKENS: usage.input_tokens, semconv.OUTPUT_TOKENS: usage.output_tokens, **cost}
