"""Requests in a conversation: alone where they tell enough, else with what was said before, else left to its agent."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, Router, RoutingResult
from ekiden.dispatcher.routing.followup import FollowUpRouter
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.records import RoutingStage

EMPTY = build_catalog([])[0]


@dataclass
class Knowing:
    """Chooses by the words that it knows; of several that occur, the first in its own order."""

    words: Mapping[str, str]
    confidence: float = 90.0
    asked: list[str] = field(default_factory=list)

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        self.asked.append(prompt)
        agent = next((agent for word, agent in self.words.items() if word in prompt), None)
        route = agent and Route(agent=agent, stage="rule", score=20, confidence=self.confidence)
        return RoutingResult(route=route or None, stages=(RoutingStage(stage="rule", agent=agent),))


def routed(router: Knowing, prompt: str, *earlier: str) -> RoutingResult:
    return asyncio.run(FollowUpRouter(router).route(prompt, EMPTY, RequestContext(earlier)))


def test_a_request_that_tells_enough_alone_is_not_read_with_anything() -> None:
    router = Knowing({"tests": "tester", "crash": "debugger"})

    result = routed(router, "and now the tests", "it has a crash")

    assert result.route is not None
    assert (result.route.agent, result.route.stage) == ("tester", "rule")
    assert router.asked == ["and now the tests"]


def test_a_request_that_tells_too_little_is_read_with_what_was_said_before() -> None:
    router = Knowing({"the same\nwrite": "tester", "write": "writer"})

    result = routed(router, "the same", "write the lexer")

    assert result.route is not None
    assert (result.route.agent, result.route.stage, result.route.score) == ("tester", "session", 20)
    assert [(stage.stage, stage.decided) for stage in result.stages] == [("rule", False), ("session", True)]
    assert result.stages[-1].note == "with what was said before, by rule"


def test_what_only_goes_on_with_the_matter_is_left_to_the_agent_that_spoke_last() -> None:
    result = routed(Knowing({"crash": "debugger"}), "thank you", "it has a crash")

    assert result.route is None
    assert [(one.stage, one.agent, one.decided) for one in result.stages[1:]] == [("session", "debugger", False)]


def test_goes_back_only_as_far_as_it_must() -> None:
    near, far = Knowing({"more\nso": "writer", "crash": "debugger"}), Knowing({"more\nso\nit has": "debugger"})

    found = [routed(router, "more", "it has a crash", "so").route for router in (near, far)]

    assert [route and route.agent for route in found] == ["writer", "debugger"]
    assert not any("crash" in text for text in near.asked)


def test_a_choice_that_is_as_likely_wrong_as_right_counts_for_nothing() -> None:
    result = routed(Knowing({"more\nso": "writer"}, confidence=49), "more", "so")

    assert result.route is None
    assert result.stages[-1].note == "not even with what was said before"


def test_without_a_conversation_nothing_is_added() -> None:
    assert routed(Knowing({}), "more").stages == (RoutingStage(stage="rule"),)


@pytest.mark.parametrize(
    ("prompt", "before", "agent"),
    [
        ("and now the tests", "please write a function that parses dates", "test-writer"),
        ("那测试呢", "为什么登录页面崩溃", "test-writer"),
        ("do it", "the tests of this project fail: TypeError in cart.total", None),
        ("thanks", "the tests of this project fail: TypeError in cart.total", None),
    ],
)
def test_the_shipped_agents_take_follow_ups(
    hybrid: Router, shipped: Catalog, prompt: str, before: str, agent: str | None
) -> None:
    route = asyncio.run(hybrid.route(prompt, shipped, RequestContext((before,)))).route

    assert (route.agent if route else None) == agent


def test_a_matter_is_known_by_the_latest_message_that_tells_it() -> None:
    agents = [
        definition_from({"name": name, "description": "d", "triggers": {"keywords": [word, *more]}}, "x")
        for name, word, more in (("parcels", "parcel", ["late"]), ("refunds", "refund", []))
    ]
    catalog = build_catalog(agents)[0]
    rule = routers(RoutingValues())["rule"]

    result = asyncio.run(
        rule.route("both of them?", catalog, RequestContext(("a refund, please", "my parcel is late")))
    )

    assert result.route is None, "goes on with the parcel"
    assert result.stages[-1].agent == "parcels"


@pytest.fixture(scope="module")
def hybrid() -> Router:
    """One that has loaded its encoder and learned the catalog once."""
    return routers(RoutingValues())["hybrid"]


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return build_catalog(load_folder(shipped_agents_dir() / "software", "global").definitions)[0]
