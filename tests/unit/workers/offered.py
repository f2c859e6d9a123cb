"""What one agent is offered in a leg that is made by hand, for tests of handoffs."""

from collections.abc import Mapping
from typing import Any

from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.handoff import Frame, HandoffContext, first_context
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import Entry, HandedOff, JobRequested, Record
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.base import Claimed, Lease
from ekiden.workers.handoff_targets import targets_of
from ekiden.workers.handoffs import Transfers
from tests.unit.workers.world import call

__all__ = ["JOB", "STYLES", "asking", "leg_of", "transfers_of"]

JOB = "abcdefghij234567.1"
STYLES = ("tools", "single")


def asking(style: str, to: str, call_id: str = "c1", **args: Any) -> ToolCall:
    """A call that asks for a handoff to ``to``: how its tool's name ends, or in the single style the agent's name."""
    args = {"reason": "it should go on", **args}
    if style == "single":
        return call(call_id, "transfer_to_agent", agent_name=to, **args)
    return call(call_id, f"transfer_to_{to}", **args)


def leg_of(
    *agents: str,
    state: Mapping[str, Any] | None = None,
    max_depth: int | None = None,
    frames: tuple[Frame, ...] = (),
    delegated_by: str | None = None,
) -> Leg:
    """The leg of the last of ``agents``; the first got control by the route, or from an agent of another job."""
    context = first_context(JOB)
    if delegated_by:
        context = context.advance(delegated_by, "route", is_route=True)
    records: list[Record] = [JobRequested(prompt="mend it", max_depth=max_depth)]
    for at, agent in enumerate(agents):
        context = context.advance(agent, "because", is_route=at == 0 and not delegated_by)
        records.append(HandedOff(leg=at, context=context))
    return leg_with(context.model_copy(update={"calls": frames}), records, state)


def leg_with(context: HandoffContext, records: list[Record], state: Mapping[str, Any] | None) -> Leg:
    """A leg behind ``records`` that records nothing itself."""
    entries = [Entry(seq=at, at_ms=0, record=record) for at, record in enumerate(records, 1)]
    lease = Lease(JOB, len(records) - 1, "1", "q")
    claimed = Claimed(lease, context, 1, 0, "cat", "", stop=None)
    return Leg(claimed, entries, None, state=state)  # type: ignore[arg-type]  # nothing is stored


def transfers_of(catalog: Catalog, leg: Leg) -> Transfers:
    """What the leg's agent is offered, as a worker finds it."""
    agent = catalog.definition(leg.agent)
    targets = {rule.to: catalog.definition(rule.to) for rule in targets_of(agent, leg)}
    return Transfers(agent, leg, catalog.manifest(), targets)
