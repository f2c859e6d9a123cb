"""The stages in their order, and what each leaves behind."""

import asyncio
from dataclasses import dataclass, field

from ekiden.dispatcher.routing.base import NO_CONTEXT, OUT, RequestContext, Route, RoutingResult
from ekiden.dispatcher.routing.followup import FollowUpRouter
from ekiden.dispatcher.routing.hybrid import HybridRouter
from ekiden.dispatcher.routing.posterior import posterior
from ekiden.dispatcher.routing.semantic import judged
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

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        self.asked.append(prompt)
        found = self.agent and Route(agent=self.agent, stage=self.name, score=self.score, confidence=self.confidence)
        stage = RoutingStage(stage=self.name, agent=self.agent, confidence=self.confidence, decided=self.is_sure)
        return RoutingResult(
            route=found if found and self.is_sure else None, candidates=(found,) if found else (), stages=(stage,)
        )


def routed(rule: Stage, semantic: Stage) -> RoutingResult:
    return asyncio.run(HybridRouter(rule, semantic).route("help", EMPTY))


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


def test_where_neither_is_sure_nobody_is_chosen_and_the_candidates_stay() -> None:
    result = routed(Stage("rule", agent="a", confidence=60), Stage("semantic", agent="b", is_sure=False))

    assert chosen(result) is None
    assert [route.agent for route in result.candidates] == ["b", "a"]


def judgement(share: float, **confidences: float) -> RoutingResult:
    """Return what meaning says: how surely a request is anybody's, and each agent's confidence, of 100."""
    routes = [Route(agent=agent, stage="semantic", score=share, confidence=one) for agent, one in confidences.items()]
    return judged(tuple(routes), share, 50, 0)


def found(**evidence: float) -> RoutingResult:
    """Return what rules say that are too unsure to decide: for each agent, by what its odds are more (a logarithm)."""
    routes = [
        Route(agent=agent, stage="rule", score=5, confidence=60, matched_keywords=("word",)) for agent in evidence
    ]
    return RoutingResult(candidates=tuple(routes), evidence=evidence)


def test_a_keyword_carries_a_request_over_the_threshold_that_meaning_nearly_refuses() -> None:
    nearly, hardly = judgement(20, a=15, b=5), judgement(1, a=0.8, b=0.2)

    assert chosen(posterior(found(), nearly)) is None
    assert chosen(posterior(found(a=1.1), nearly)) == ("a", "semantic")
    assert chosen(posterior(found(a=1.1), hardly)) is None


def test_a_keyword_decides_between_agents_that_mean_nearly_the_same() -> None:
    result = posterior(found(b=1.1), judgement(90, a=50, b=40, c=0.1))

    assert chosen(result) == ("b", "semantic")
    assert [route.agent for route in result.candidates] == ["b", "a", "c"]
    assert result.candidates[0].confidence > 80
    assert result.candidates[0].matched_keywords == ("word",)
    assert "looks like b" in result.stages[0].note


def test_keywords_of_two_agents_cancel_each_other_out() -> None:
    assert chosen(posterior(found(a=1.1, b=1.1), judgement(90, a=50, b=40))) == ("a", "semantic")


def test_evidence_against_an_agent_is_left_to_the_meaning() -> None:
    meant = judgement(90, a=50, b=40)

    assert chosen(posterior(found(a=-2.0), meant)) == ("a", "semantic")
    assert posterior(found(a=-2.0), meant).belonging == posterior(found(a=0.0), meant).belonging


def test_whom_the_rules_take_out_gets_nothing_whatever_it_means() -> None:
    result = posterior(found(a=OUT, b=1.1), judgement(90, a=85, b=5))

    assert chosen(result) == ("b", "semantic")
    assert [route.agent for route in result.candidates] == ["b"]


def test_a_keyword_of_an_agent_that_meaning_does_not_name_makes_it_a_candidate() -> None:
    result = posterior(found(z=1.1), judgement(90, a=80))

    assert [route.agent for route in result.candidates] == ["a", "z"]


def test_the_strategies_share_what_they_learned() -> None:
    strategies = routers(RoutingValues(rule_threshold=70))
    rule, semantic, hybrid = (strategies[name] for name in ("rule", "semantic", "hybrid"))

    assert all(isinstance(one, FollowUpRouter) for one in (rule, semantic, hybrid))
    assert hybrid == FollowUpRouter(HybridRouter(rule.router, semantic.router, 70))  # type: ignore[attr-defined]  # see above
    assert "llm" not in strategies
