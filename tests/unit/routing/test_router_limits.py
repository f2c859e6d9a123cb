"""Calls of models that route count for the limits of these models, and for what is used, as any other call does."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.dispatcher.routing.llm import NOBODY, ModelRouter, RouterModel
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.dispatcher.routing.second_opinion import SecondOpinion
from ekiden.shared.ids import session_of
from ekiden.shared.llm.admission import AdmittedModel
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, ToolCall, Usage
from ekiden.shared.model_limits import limit_for
from ekiden.shared.records import LegSuspended, Routed, RoutingStage, Unrouted
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores import keys
from ekiden.shared.stores.model_limits import LimitState, ModelLimit, Reserved, Wait
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, said

ROUTER = "scripted-router"
OTHER = "aaaaaaaaaaaaaaaa.1"
_requests = itertools.count(1)


@dataclass
class Routing:
    """A model that sends every request to one agent, if it is asked."""

    tool: str = "transfer_to_billing"
    never: bool = False
    asked: list[ModelRequest] = field(default_factory=list)

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.asked.append(request)
        if self.never:
            await asyncio.Event().wait()
        part = ToolCall(id="c", name=self.tool, args={"reason": "its work"})
        usage = Usage(input_tokens=700, output_tokens=20)
        return ModelReply(message=Message(role="model", parts=(part,)), usage=usage, model=ROUTER)


class World:
    """Two agents, rules that are not sure, and a model that is asked beside them."""

    def __init__(self, stores: Stores, limit: ModelLimitValues, model: Routing | None = None) -> None:
        self.stores, self.model = stores, model or Routing()
        limits = {ROUTER: limit}
        found = limit_for(ROUTER, limits, {})
        assert found is not None
        self.limit: ModelLimit = found
        timeout_s = 0.05 if self.model.never else 60.0
        router = ModelRouter(lambda _: RouterModel(AdmittedModel(self.model), ROUTER, timeout_s), RuleRouter())
        agents: list[Mapping[str, Any]] = [
            {"name": name, "triggers": {"keywords": ["help"]}} for name in ("billing", "debugger")
        ]
        self.relay = Relay(
            stores,
            team(*agents),
            Replies({name: [said("done")] for name in ("billing", "debugger")}),
            limits=limits,
            router=SecondOpinion(RuleRouter(), router),
        )

    async def ask(self) -> tuple[Story, RoutingStage]:
        """Let a request be routed and served; return what became of it, and the model's part of that."""
        job = await self.relay.submit(f"help {next(_requests)}")
        await as_any(self.stores.client.hset(keys.session(session_of(job)), "user", "ann"))
        await self.relay.drain()
        story = await self.relay.story(job)
        [stages] = [record.stages for record in story.records if isinstance(record, Routed | Unrouted)]
        return story, stages[-1]

    async def state(self) -> LimitState:
        return await self.stores.model_limits.state(self.limit)


def test_a_routers_call_counts_for_the_limit_of_its_model() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(rpm=10, tpm=100_000, concurrent=1))
        for number in (1, 2):
            story, stage = await world.ask()
            assert (story.chain, stage.agent, stage.usage.input_tokens) == (["billing"], "billing", 700)
            assert await world.state() == LimitState(number, number * 720, 0, 0, 0.0)

    on_server(scenario)


def test_where_there_is_no_room_the_decision_without_the_model_stands_and_nobody_waits() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(rpm=1))
        await world.ask()
        story, stage = await world.ask()
        assert (story.view.status, story.of(LegSuspended)) == ("done", [])
        assert stage.note.startswith("the model cannot be asked: scripted-router's limit of 1 call a minute, about ")
        assert (len(world.model.asked), await world.state()) == (1, LimitState(1, 720, 0, 0, 0.0))
        await as_any(stores.client.hset(keys.CLOCK, "offset_ms", 62_000))
        assert (await world.ask())[1].agent == "billing", "it is asked as soon as there is room"

    on_server(scenario)


def test_a_router_waits_a_moment_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stores: Stores) -> None:
        world, limits, is_full = World(stores, ModelLimitValues(concurrent=1)), stores.model_limits, asyncio.Event()
        other = await limits.take(world.limit, OTHER, 1, queues=False)
        assert isinstance(other, Reserved)
        real = limits.take

        async def take(*given: Any, **more: Any) -> Reserved | Wait:
            taken = await real(*given, **more)
            if isinstance(taken, Wait):
                is_full.set()
            return taken

        monkeypatch.setattr(limits, "take", take)
        asking = asyncio.create_task(world.ask())
        async with asyncio.timeout(30):
            await is_full.wait()
        await limits.settle(other, 1)
        assert (await asking)[1].agent == "billing"

    on_server(scenario)


def test_a_router_stands_behind_those_who_wait_for_its_model() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(rpm=1))
        await world.ask()
        await as_any(stores.client.hset(keys.job(OTHER), mapping={"status": "suspended", "cause": "limit"}))
        await stores.client.expire(keys.job(OTHER), 1_000)
        assert isinstance(await stores.model_limits.take(world.limit, OTHER, 1, queues=True), Wait)
        await as_any(stores.client.hset(keys.CLOCK, "offset_ms", 62_000))
        _, stage = await world.ask()
        assert "the model cannot be asked" in stage.note
        assert await stores.model_limits.wake() == [OTHER]

    on_server(scenario)


def test_a_model_that_does_not_answer_in_time_gives_its_slot_back_and_counts_as_it_was_reserved() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(tpm=100_000, concurrent=1), Routing(never=True))
        _, stage = await world.ask()
        assert stage.note == "the model did not answer within 0.05 s"
        state = await world.state()
        assert (state.calls, state.running, state.tokens > 50) == (1, 0, True)

    on_server(scenario)


@pytest.mark.parametrize(("tool", "agent"), [("transfer_to_billing", "billing"), (NOBODY, None)])
def test_what_routing_takes_is_counted_whether_somebody_gets_the_request_or_not(tool: str, agent: str | None) -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(rpm=10), Routing(tool))
        story, _ = await world.ask()
        assert story.chain == ([agent] if agent else [])
        rows = await stores.usage.rows([await stores.usage.today()])
        [row] = [row for row in rows if row.model == ROUTER]
        assert (row.user, row.calls, row.input_tokens, row.output_tokens) == ("ann", 1, 700, 20)
        assert (await stores.usage.spent(session_of(story.view.id)))["user_tokens"] >= 720

    on_server(scenario)
