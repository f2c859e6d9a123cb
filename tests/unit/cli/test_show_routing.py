"""How people are told who got their request, and by whose choice."""

import pytest

from ekiden.shared.messages import Usage
from ekiden.shared.records import Ended, JobRequested, Routed, RoutingStage, Unrouted
from tests.unit.cli.test_show import shown

RULE = RoutingStage(stage="rule", agent="debugger", confidence=40, note="too unsure to decide alone")


def routed(stage: str, *stages: RoutingStage, confidence: float = 95) -> str:
    return shown(Routed(agent="debugger", stage=stage, score=9, confidence=confidence, stages=stages))


def test_what_the_session_decides_comes_with_its_rule() -> None:
    kept = RoutingStage(stage="session", agent="debugger", decided=True, note="policy sticky: it spoke last")

    assert routed("session", kept) == "🎯 Routing via session to: debugger (policy sticky: it spoke last)\n"


def test_a_route_of_an_earlier_version_is_told_by_its_figure() -> None:
    assert (
        routed("session", RULE, confidence=0).splitlines()[-1] == "🎯 Routing via session to: debugger (0% confidence)"
    )


@pytest.mark.parametrize(
    ("model", "told"),
    [("gemini-x", "95% confidence"), ("scripted", "95% confidence, by the scripted stand-in for a model")],
)
def test_a_stand_in_is_told_from_a_model(model: str, told: str) -> None:
    assert routed("llm", RULE, RoutingStage(stage="llm", agent="debugger", decided=True, model=model)).splitlines() == [
        "🤖 Rule confidence too low (40%), using LLM routing",
        f"🎯 Routing via LLM to: debugger ({told})",
    ]


def test_the_tokens_of_the_routing_are_counted_whether_or_not_somebody_was_chosen() -> None:
    asked = RoutingStage(stage="llm", model="m", usage=Usage(input_tokens=30, output_tokens=4))
    refused = Ended(status="failed", reason="NO_ROUTE", error="no agent matches the request")

    text = shown(JobRequested(prompt="x"), Unrouted(why="no agent matches the request", stages=(asked,)), refused)

    assert "34 tokens" in text
