"""The stages in their order, and what each leaves behind."""

import asyncio
from dataclasses import dataclass, field

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, RoutingResult
from ekiden.dispatcher.routing.followup import FollowUpRouter
from ekiden.dispatcher.routing.hybrid import HybridRouter
from ekiden.dispatcher.routing.llm import RouterModel
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.records import RoutingStage

EMPTY = build_catalog([])[0]


@dataclass
class Stage:
    """A router that always finds the same."""

    name: str
    agent: str | None = "a"
    confidence: float = 90.0
    score: float = 60.0
    is_sure: bool = True
    asked: list[str] = field(default_factory=list)
    context: RequestContext = NO_CONTEXT

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        self.context = context
        self.asked.append(prompt)
        found = self.agent and Route(agent=self.agent, stage=self.name, score=self.score, confidence=self.confidence)
        stage = RoutingStage(stage=self.name, agent=self.agent, confidence=self.confidence, decided=self.is_sure)
        return RoutingResult(
            route=found if found and self.is_sure else None, candidates=(found,) if found else (), stages=(stage,)
        )


def routed(rule: Stage, semantic: Stage, model: Stage | None = None) -> RoutingResult:
    return asyncio.run(HybridRouter(rule, semantic, model).route("help", EMPTY))


def chosen(result: RoutingResult) -> tuple[str, str] | None:
    return (result.route.agent, result.route.stage) if result.route else None


def test_a_sure_rule_decides_and_nobody_else_is_asked() -> None:
    semantic = Stage("semantic")

    result = routed(Stage("rule", confidence=80), semantic)

    assert chosen(result) == ("a", "rule")
    assert semantic.asked == []
    assert [(stage.stage, stage.threshold, stage.decided) for stage in result.stages] == [("rule", 80.0, True)]


def test_an_unsure_rule_leaves_it_to_the_meaning() -> None:
    result = routed(Stage("rule", confidence=79), Stage("semantic", agent="b"))

    assert chosen(result) == ("b", "semantic")
    assert [(stage.stage, stage.decided) for stage in result.stages] == [("rule", False), ("semantic", True)]


def test_what_the_meaning_refuses_goes_to_the_model() -> None:
    result = routed(Stage("rule", agent=None), Stage("semantic", agent="b", is_sure=False), Stage("llm", agent="c"))

    assert chosen(result) == ("c", "llm")
    assert [stage.stage for stage in result.stages] == ["rule", "semantic", "llm"]


def test_without_a_model_nobody_is_chosen_and_the_candidates_stay() -> None:
    result = routed(Stage("rule", agent="a", confidence=60), Stage("semantic", agent="b", is_sure=False))

    assert chosen(result) is None
    assert [route.agent for route in result.candidates] == ["b", "a"]


def test_that_rules_and_meaning_hesitate_over_the_same_agent_is_no_choice() -> None:
    assert chosen(routed(Stage("rule", confidence=79), Stage("semantic", score=49, is_sure=False))) is None


def test_a_model_is_told_what_the_request_comes_with() -> None:
    model, context = Stage("llm"), RequestContext(("before",))
    unsure = Stage("rule", agent=None), Stage("semantic", is_sure=False)

    asyncio.run(HybridRouter(*unsure, model).route("help", EMPTY, context))

    assert model.context is context


def test_the_strategies_share_what_they_learned() -> None:
    strategies = routers(RoutingValues(rule_threshold=70))
    rule, semantic, hybrid = (strategies[name] for name in ("rule", "semantic", "hybrid"))

    assert all(isinstance(one, FollowUpRouter) for one in (rule, semantic, hybrid))
    assert hybrid == FollowUpRouter(HybridRouter(rule.router, semantic.router, None, 70))  # type: ignore[attr-defined]  # see above
    assert "llm" not in strategies


def test_a_model_reads_the_conversation_itself() -> None:
    def nobody(_: Catalog) -> RouterModel:
        raise AssertionError

    assert isinstance(routers(RoutingValues(model_for=nobody, asks_model=True))["hybrid"], HybridRouter)
