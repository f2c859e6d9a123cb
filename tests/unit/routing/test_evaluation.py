"""The figures of an evaluation, on results that are known."""

import asyncio

import pytest

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Route, RoutingResult
from ekiden.dispatcher.routing.evaluation import Case, Outcome, evaluate, read_cases, report
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.errors import InvalidRequest


def outcome(label: str, best: str, kept: bool, belonging: float = 50.0, clear: bool = True, ms: float = 1.0) -> Outcome:
    route = Route(agent=best, stage="semantic", score=belonging, confidence=90)
    result = RoutingResult(route=route if kept else None, candidates=(route,), belonging=belonging)
    return Outcome(Case("x", label, clear), result, ms)


def test_the_figures_are_what_their_names_say() -> None:
    figures = report(
        [
            outcome("a", "a", True, 90, ms=1),
            outcome("a", "b", True, 80, ms=2),
            outcome("b", "b", False, 20, ms=3),
            outcome("b", "b", True, 70, ms=4),
            outcome("b", "a", True, 70, clear=False, ms=5),
            outcome("oos", "a", False, 10, ms=6),
            outcome("oos", "a", True, 75, ms=100),
        ]
    )

    expected = {"n": 7, "in_scope": 4, "out_of_scope": 2, "unclear": 1, "in_scope_accuracy": 0.5}
    expected |= {"in_scope_accuracy_unrefused": 0.75, "in_scope_kept": 0.75, "oos_refused": 0.5, "oos_auroc": 0.75}
    assert {key: figures[key] for key in expected} == expected
    assert figures["p50_ms"] == 4
    assert figures["p99_ms"] > 90
    assert figures["agents"]["a"] == {"n": 2, "right": 1, "others": {"b": 1}}
    assert figures["agents"]["b"] == {"n": 2, "right": 1, "others": {"oos": 1}}
    wrong = [("a", "b"), ("b", "oos"), ("oos", "a")]
    assert figures["wrong"] == [{"text": "x", "label": label, "went": went} for label, went in wrong]
    assert figures["stages"] == {"semantic": {"decided": 4, "of_in_scope": 0.75, "right": 0.5}}


def test_shares_of_nothing_are_none() -> None:
    figures = report([outcome("a", "a", True)])

    assert (figures["oos_refused"], figures["oos_auroc"]) == (None, None)


def test_reads_rows_and_skips_empty_lines() -> None:
    rows = ['{"text": "x", "label": "a", "lang": "en"}', "", '{"text": "y", "label": "oos", "clear": false}']

    assert read_cases(rows, ["a"]) == [Case("x", "a"), Case("y", "oos", is_clear=False)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["{"], "line 1: no valid JSON"),
        (["", '{"text": "x"}'], "line 2: an object with the texts 'text' and 'label'"),
        (['["x", "a"]'], "line 1: an object"),
        (['{"text": "x", "label": "c"}'], "line 1: the label 'c' is no agent"),
        (['{"text": "x", "label": "agnet"}'], "nor 'oos': did you mean 'agent'"),
        (["{", '{"text": "x", "label": "a"}', "[]"], "line 1: [^\n]*\nline 3: an object"),
        (["{"] * 25, "line 20: [^\n]*\nand 5 more"),
        ([], "there are no rows"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(rows: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"(?s)^cases.jsonl: .*{said}"):
        read_cases(rows, ["a", "agent"], "cases.jsonl: ")


def test_what_a_router_learns_first_is_not_in_its_times() -> None:
    class Counting:
        calls = 0

        async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
            self.calls += 1
            return RoutingResult()

    router = Counting()

    figures = asyncio.run(evaluate(router, build_catalog([])[0], [Case("x", "oos"), Case("y", "oos")]))

    assert router.calls == 3
    assert (figures["n"], figures["oos_refused"]) == (2, 1.0)
