"""Fifty agents, and a model that does anything it is offered, and much that it is not: the limits hold."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta, ToolSpec
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.records import Delegated, HandedOff, ModelReplied, Refused, ToolFinished
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, assert_well_formed, on_server, team
from tests.unit.workers.world import tool_named

AGENTS = [f"agent-{n}" for n in range(50)]
MAX_DEPTH = 6
MAX_TURNS = 5


def walkers(seed: int) -> Catalog:
    """Fifty agents with random edges of every kind."""
    rng = random.Random(seed)
    return team(*[_walker(name, rng) for name in AGENTS])


def _walker(name: str, rng: random.Random) -> dict[str, Any]:
    others = [other for other in AGENTS if other != name]
    edges = [{"to": to, "return": rng.random() < 0.3} for to in rng.sample(others, rng.randrange(5))]
    return {
        "name": name,
        "handoffs": edges,
        "subagents": rng.sample(others, rng.choice([0, 0, 1, 2])),
        "transfer": rng.choice(["tools", "single"]),
        "transfer_to_parent": rng.random() < 0.3,
        "delegation": {"join": rng.choice(["all", "any", "quorum:2"])},
        "limits": {"max_turns": MAX_TURNS, "max_handoff_depth": MAX_DEPTH},
    }


class Drunkard:
    """A model that calls at random what it is offered, what it is not, and what makes no sense."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._calls = 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        assert_well_formed(request)
        many = self._rng.choice([0, 1, 1, 1, 2, 3])
        parts: list[Any] = [TextPart(text=f"Step {self._calls}.")]
        parts += [self._call(request.tools) for _ in range(many)]
        return ModelReply(message=Message(role="model", parts=tuple(parts)), model="drunkard")

    def _call(self, tools: tuple[ToolSpec, ...]) -> ToolCall:
        self._calls += 1
        name = self._rng.choice([tool.name for tool in tools] or ["look"])
        if self._rng.random() < 0.15:
            name = self._rng.choice(["transfer_to_nobody", "transfer_to_agent_7", "nonsense", f"default_api:{name}"])
        return ToolCall(id=f"c{self._calls}", name=name, args=self._args())

    def _args(self) -> Mapping[str, Any]:
        if self._rng.random() < 0.1:
            return {}
        word = f"because {self._calls}"
        return {"reason": word, "objective": word, "what": word, "agent_name": self._rng.choice(AGENTS)}


async def stories_below(relay: Relay, stores: Stores, job: str) -> list[tuple[str, Story]]:
    """The story of a job and of everything that it delegated."""
    story = await relay.story(job)
    below = [await stories_below(relay, stores, one.child) for one in story.of(Delegated)]
    return [(job, story), *(pair for pairs in below for pair in pairs)]


def assert_valid(catalog: Catalog, story: Story, depth_before: int) -> None:
    """The chain is a path of the graph, no deeper than allowed; returns go where they came from."""
    waiting: list[str] = []
    depth = depth_before
    for move in [record.context for record in story.of(HandedOff)][1:]:
        if move.returned is not None:
            assert move.to_agent == waiting.pop()
            continue
        source = catalog.definition(move.from_agent)
        rule = next((rule for rule in source.handoffs if rule.to == move.to_agent), None)
        assert rule is not None or source.transfer_to_parent
        waiting += [move.from_agent] if rule is not None and rule.returns else []
        depth += 1
    assert depth <= MAX_DEPTH
    assert waiting == [frame.agent for frame in story.of(HandedOff)[-1].context.calls]


def assert_answered_once(story: Story) -> None:
    """Every call has exactly one response."""
    asked = [call.id for record in story.of(ModelReplied) for call in record.message.calls]
    answered = [record.result.call_id for record in story.of(ToolFinished)]
    answered += [str(record.call_id) for record in story.of(HandedOff) if record.call_id]
    answered += [str(record.call_id) for record in story.of(Refused) if record.call_id]
    assert Counter(answered) == Counter(asked)
    for leg, count in Counter(record.leg for record in story.of(ModelReplied)).items():
        assert count <= MAX_TURNS + 1, f"leg {leg} had {count} turns"


@pytest.mark.parametrize("seed", range(25))
def test_whatever_fifty_agents_do_no_limit_is_exceeded_and_every_call_is_answered_once(seed: int) -> None:
    catalog = walkers(seed)

    async def scenario(stores: Stores) -> None:
        relay = Relay(stores, catalog, Drunkard(seed), tools=[tool_named("look")])
        job = await relay.submit("walk", agent=AGENTS[0])
        async with asyncio.timeout(60):
            await relay.drain()
        found = await stories_below(relay, stores, job)
        for name, story in found:
            if not story.view.is_over:  # a parent needs it no more: the sweeper's work
                assert story.view.stop == "parent", name
                continue
            assert_valid(catalog, story, story.of(HandedOff)[0].context.metadata.chain_depth)
            if story.view.status != "cancelled":
                assert_answered_once(story)

    on_server(scenario)
