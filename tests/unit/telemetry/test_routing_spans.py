"""The spans of a routing: one for each stage that looked, one for the model's call."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ekiden.dispatcher.routing.base import RequestContext
from ekiden.dispatcher.routing.llm import ModelRouter, RouterModel
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.handoff import first_context
from ekiden.shared.hooks.base import HookedModel, attending
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, ToolCall, Usage
from ekiden.shared.records import HandedOff, Record, Routed, RoutingStage, Unrouted
from ekiden.shared.stores.base import Claimed, Lease
from tests.unit.telemetry.test_tracing import CONTEXT, JOB, TRACE, Playing, World, attributes, journal

CATALOG = build_catalog([definition_from({"name": "debugger", "description": "Finds faults."}, "x")])[0]
RULE = RoutingStage(stage="rule", note="no keyword or pattern occurs")
MEANING = RoutingStage(stage="semantic", agent="debugger", score=9.0, note="looks like no agent's work")


class Choosing:
    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        call = ToolCall(id="c", name="transfer_to_debugger", args={"reason": "it fails"})
        usage = Usage(input_tokens=70, output_tokens=9)
        return ModelReply(message=Message(role="model", parts=(call,)), usage=usage, model=request.model)


@pytest.fixture
def world() -> World:
    return World()


@contextmanager
def routing(world: World) -> Iterator[Playing]:
    """Leg 0 in the hands of the dispatcher."""
    lease = Claimed(Lease(JOB, 0, "7"), first_context(JOB, TRACE), 1, 0, "", "", None)
    with attending(world.hook, lease, "ekiden.dispatch") as told:
        told.opened(entries := journal()[:2])
        yield Playing(told, entries)


def test_the_routers_model_call_has_a_span_of_its_own_with_its_tokens(world: World) -> None:
    router = ModelRouter(lambda _: RouterModel(Choosing(), "gemini-x"), RuleRouter())

    with routing(world) as leg:
        around = RequestContext(observed=lambda model: HookedModel(model, leg.hook))
        result = asyncio.run(router.route("it fails", CATALOG, around))
        assert result.route is not None
        leg.record(Routed(leg=0, **result.route.model_dump(), stages=result.stages), HandedOff(context=CONTEXT))

    call, delivery = world.one("generate_content gemini-x"), world.one("process ekiden.dispatch")
    assert call.parent is not None
    assert delivery.context is not None
    assert call.parent.span_id == delivery.context.span_id
    assert attributes(call)["gen_ai.usage.input_tokens"] == 70
    assert attributes(delivery)["ekiden.outcome"] == "transfer"
    assert result.stages[0].usage == Usage(input_tokens=70, output_tokens=9)


@pytest.mark.parametrize(
    "record",
    [
        Routed(agent="a", stage="session", score=0, confidence=0, stages=(RULE, MEANING)),
        Unrouted(why="no agent matches the request", stages=(RULE, MEANING)),
    ],
)
def test_every_stage_that_looked_has_a_span_whether_or_not_somebody_was_chosen(world: World, record: Record) -> None:
    with routing(world) as leg:
        leg.record(record)

    assert world.names[:2] == ["route rule", "route semantic"]
    assert attributes(world.one("route semantic"))["gen_ai.transfer.target.name"] == "debugger"


def test_an_agent_that_the_user_named_has_one_too(world: World) -> None:
    with routing(world) as leg:
        leg.record(Routed(agent="a", stage="agent", score=0, confidence=100))

    assert attributes(world.one("route agent"))["gen_ai.transfer.target.name"] == "a"
