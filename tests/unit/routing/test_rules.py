import asyncio
import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.dispatcher.routing.base import OUT, SHOWN, RoutingResult
from ekiden.dispatcher.routing.hybrid import RULE_THRESHOLD
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import SHIPPED, load_folder
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.patterns import Pattern, compile_pattern
from tests.ticking import beside_a_ticking_loop

ROUTER = RuleRouter()
"""It compiles a catalog once, as that of a dispatcher does."""


def catalog_of(**triggers: Any) -> Catalog:
    agents = [
        definition_from({"name": name, "description": "d", "triggers": value}, "x") for name, value in triggers.items()
    ]
    return build_catalog(agents)[0]


def routed(prompt: str, catalog: Catalog) -> RoutingResult:
    return asyncio.run(ROUTER.route(prompt, catalog))


def chosen(prompt: str, catalog: Catalog) -> str | None:
    route = routed(prompt, catalog).route
    return route.agent if route else None


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    loaded = load_folder(shipped_agents_dir() / "software", "global")
    return build_catalog(loaded.definitions)[0]


@pytest.mark.parametrize(
    ("prompt", "agent"),
    [
        ("the tests of this project fail: TypeError in cart.total", "debugger"),
        ("the last test fails, please repair it", "debugger"),
        ("这个 TypeError 怎么解决？", "debugger"),
        ("程序启动就崩溃", "debugger"),
        ("fix the off-by-one in pages.py", "code-fixer"),
        ("review my pull request", "reviewer"),
        ("帮我审查一下这段代码", "reviewer"),
        ("write documentation for the API", "documenter"),
        ("write unit tests for the parser", "test-writer"),
        ("给购物车模块补几个单元测试", "test-writer"),
        ("this import is too slow", "performance-optimizer"),
        ("is there an SQL injection in the login?", "security-auditor"),
        ("how does the login flow work in this project?", "codebase-investigator"),
        ("今天天气怎么样？", None),
        ("hello", None),
        ("", None),
    ],
)
def test_shipped_agents_get_the_requests_that_are_theirs(shipped: Catalog, prompt: str, agent: str | None) -> None:
    assert chosen(prompt, shipped) == agent


def test_no_shipped_rule_is_sure_of_an_example_of_another_agent(shipped: Catalog) -> None:
    examples = [(text, name) for name, agent in shipped.agents.items() for text in agent.triggers.examples]
    routes = [(routed(text, shipped).route, text, name) for text, name in examples]

    sure = [(route.agent, text, name) for route, text, name in routes if route and route.confidence >= RULE_THRESHOLD]
    assert sure
    assert [one for one in sure if one[0] != one[2]] == []


def test_scores_ten_a_keyword_twenty_a_pattern_times_priority() -> None:
    catalog = catalog_of(a={"keywords": ["bug", "crash", "other"], "patterns": [r"err(or)?", "no"], "priority": 90})

    route = routed("a bug, a CRASH, an Error", catalog).route

    assert route is not None
    assert (route.agent, route.stage, route.score) == ("a", "rule", 36)
    assert route.matched_keywords == ("bug", "crash")
    assert route.matched_patterns == ("err(or)?",)


def test_rounds_half_up() -> None:
    many = [f"w{number}" for number in range(12)]
    catalog = catalog_of(a={"keywords": ["bug"], "priority": 45}, b={"keywords": many, "priority": 100})

    result = routed("bug " + " ".join(many), catalog)

    assert [(route.agent, route.score) for route in result.candidates] == [("b", 120), ("a", 5)]


def test_the_best_score_wins_whatever_its_height() -> None:
    assert chosen("bug", catalog_of(a={"keywords": ["bug"], "priority": 10})) == "a"


def test_the_surest_wins_whatever_its_priority() -> None:
    catalog = catalog_of(a={"keywords": ["bug"], "priority": 100}, b={"patterns": ["bug"], "priority": 40})
    assert [(route.agent, route.score) for route in routed("bug", catalog).candidates] == [("b", 8), ("a", 10)]


def test_ties_go_to_priority_then_to_name() -> None:
    catalog = catalog_of(
        c={"patterns": ["bug"], "priority": 50},
        b={"patterns": ["bug"], "priority": 50},
        z={"patterns": ["bug"], "priority": 51},  # as many points, rounded
    )

    assert [route.agent for route in routed("bug", catalog).candidates] == ["z", "b", "c"]


def test_priority_zero_takes_an_agent_out() -> None:
    result = routed("bug", catalog_of(a={"keywords": ["bug"], "priority": 0}))

    assert (result.route, result.candidates) == (None, ())
    assert result.stages[0].note == "no keyword or pattern occurs"


def test_a_keyword_given_twice_counts_once() -> None:
    route = routed("Bug", catalog_of(a={"keywords": ["bug", "BUG"], "priority": 100})).route

    assert route is not None
    assert route.score == 10


@pytest.mark.parametrize(
    ("keyword", "prompt"),
    [
        ("error", "an Error: here"),
        ("error", "(error)"),
        ("error", "报error了"),
        ("stack trace", "the stack\n  TRACE says"),
        ("STRASSE", "die Straße"),
        ("größe", "die GRÖSSE und die GRÖßE"),
        ("报错", "程序报错了"),
        ("エラー", "このエラーは何"),
        ("오류", "오류가 있다"),
        ("fail", "failed, then fail"),
        ("debug", "I am debugging it"),
        ("invoice", "two INVOICES, please"),
        ("invoices", "this invoice"),
        ("charge", "I was charged twice"),
        ("query", "slow queries"),
        ("status", "all statuses"),
        ("stop", "it stopped"),
        ("merge conflict", "merging: two merge conflicts"),
        ("pull request", "my pull requests"),
        ("debug一下", "先debugging一下"),
        ("test", "他说tests都过了"),
        ("عطل", "هناك العطل"),
        ("c++", "in C++, please"),
        (".net", "use .NET."),
        ("debug一下", "帮我debug一下吧"),
        ("a.b", "see a.b"),
    ],
)
def test_finds_keywords_as_their_script_writes_words(keyword: str, prompt: str) -> None:
    assert chosen(prompt, catalog_of(a={"keywords": [keyword]})) == "a"


def test_a_keyword_in_two_forms_counts_once() -> None:
    route = routed("two tests", catalog_of(a={"keywords": ["test", "tests", "testing"], "priority": 100})).route

    assert route is not None
    assert (route.score, route.matched_keywords) == (10, ("test",))


@pytest.mark.parametrize(
    ("keyword", "prompt"),
    [
        ("error", "TypeError"),
        ("error", "my_errors"),
        ("error", "my_error"),
        ("debug", "the debugger"),
        ("performance", "perform this"),
        ("news", "a new feature"),
        ("car", "who cares"),
        ("test", "the latest attestation"),
        ("fix", "prefix fixture"),
        ("ros", "groß ROSÉ"),
        ("a.b", "see axb"),
        ("stack trace", "stacktrace"),
        ("debug一下", "redebug一下"),
    ],
)
def test_does_not_find_keywords_inside_other_words(keyword: str, prompt: str) -> None:
    assert chosen(prompt, catalog_of(a={"keywords": [keyword]})) is None


def test_rules_are_compiled_once_per_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def noted(text: str, *, ignore_case: bool) -> Pattern:
        compiled.append(text)
        return compile_pattern(text, ignore_case=ignore_case)

    monkeypatch.setattr("ekiden.dispatcher.routing.lexicon.compile_pattern", noted)
    router = RuleRouter()
    first, second = catalog_of(a={"patterns": ["x"]}), catalog_of(a={"patterns": ["y"]})

    for catalog in (first, first, second):
        asyncio.run(router.route("x", catalog))

    assert compiled == ["x", "y"]


def confidence(prompt: str, catalog: Catalog) -> float:
    route = routed(prompt, catalog).route
    assert route is not None
    return route.confidence


def test_one_keyword_does_not_decide_alone_two_or_a_pattern_do() -> None:
    catalog = catalog_of(a={"keywords": ["bug", "crash"], "patterns": ["fail(s|ed)"]})

    assert confidence("a bug", catalog) < 80
    assert confidence("a bug and a crash", catalog) >= 80
    assert confidence("it failed", catalog) >= 80


def test_a_runner_up_with_as_much_evidence_makes_it_unsure() -> None:
    catalog = catalog_of(a={"keywords": ["bug", "crash"]}, b={"keywords": ["slow", "memory"]})

    assert confidence("a bug, a crash", catalog) >= 80
    assert confidence("a bug, a crash, slow, memory", catalog) == 50


def test_examples_confirm_a_keyword_or_refute_it() -> None:
    own = [f"refund number {number} please" for number in range(12)]
    others = [f"where is refund number {number}" for number in range(12)]
    confirmed = catalog_of(a={"keywords": ["refund"], "examples": own}, b={"keywords": ["ship"]})
    refuted = catalog_of(a={"keywords": ["refund"], "examples": own}, b={"keywords": ["ship"], "examples": others})

    assert confidence("refund number 3 please", confirmed) >= 80
    assert confidence("refund number 3 please", refuted) < 60


def test_words_that_no_example_knows_make_it_less_sure() -> None:
    catalog = catalog_of(a={"keywords": ["top up"], "examples": [f"my top up failed {n} times" for n in range(12)]})

    assert confidence("my top up failed twice", catalog) > confidence("how do I schedule an automatic top up", catalog)


def test_priority_proves_nothing() -> None:
    low, high = (catalog_of(a={"keywords": ["bug"], "priority": priority}) for priority in (10, 100))

    assert confidence("bug", low) == confidence("bug", high)


def team(**agents: tuple[str, dict[str, Any]]) -> Catalog:
    """Return a catalog of agents, each with its scope and its triggers."""
    definitions = [
        definition_from({"name": name, "description": "d", "triggers": triggers}, "x", scope)
        for name, (scope, triggers) in agents.items()
    ]
    return build_catalog(definitions)[0]


SHIPPED_DEBUGGER = (
    SHIPPED,
    {"keywords": ["debug", "hangs"], "patterns": [r"debug.*code", "traceback"], "priority": 100},
)


@pytest.mark.parametrize(
    ("keywords", "prompt", "agent"),
    [
        (["debug"], "debug my code", "mine"),  # the same keyword, and a pattern about it
        (["debug"], "I am debugging my code", "mine"),
        (["调试"], "用 debug 调试", "shipped"),  # the other keyword stands for itself
        (["invoice"], "debug the invoice", "shipped"),
        (["debug"], "debug my code, it hangs", "shipped"),
        ([], "debug my code", "shipped"),
    ],
)
def test_what_comes_with_ekiden_never_wins_by_a_users_keyword(keywords: list[str], prompt: str, agent: str) -> None:
    mine = ("project", {"keywords": keywords, "priority": 1 if agent == "shipped" else 5})

    assert chosen(prompt, team(shipped=SHIPPED_DEBUGGER, mine=mine)) == agent


def test_who_is_beaten_on_a_users_keyword_is_out_also_for_what_the_request_means() -> None:
    catalog = team(
        shipped=SHIPPED_DEBUGGER, other=(SHIPPED, {"keywords": ["slow"]}), mine=("global", {"keywords": ["debug"]})
    )

    evidence = routed("debug it, it is slow", catalog).evidence

    assert evidence["shipped"] == OUT
    assert evidence["mine"] > 0
    assert evidence["other"] > 0


def test_agents_that_serve_ekiden_itself_are_no_candidates() -> None:
    fields = {"description": "d", "triggers": {"keywords": ["bug"]}}
    agents = [
        definition_from({"name": name, "scope": scope, **fields}, "x")
        for name, scope in (("a", "system"), ("b", "project"))
    ]

    assert [route.agent for route in routed("bug", build_catalog(agents)[0]).candidates] == ["b"]


def test_many_patterns_run_as_one_set_and_are_all_found() -> None:
    catalog = catalog_of(**{f"a{number}": {"patterns": [rf"\bcode{number}\b"]} for number in range(450)})

    assert [route.agent for route in routed("code7, code333 and CODE449", catalog).candidates] == ["a333", "a449", "a7"]


def test_patterns_are_tried_one_by_one_where_a_set_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted:
        def Match(self, text: bytes) -> None:  # noqa: N802 - RE2's name
            return None  # not even the pattern that always matches

    monkeypatch.setattr("ekiden.dispatcher.routing.lexicon.pattern_set", lambda *_, **__: Exhausted())

    assert chosen("code7", catalog_of(**{f"a{n}": {"patterns": [f"code{n}$"]} for n in range(40)})) == "a7"


def test_of_very_many_candidates_the_best_are_named() -> None:
    agents = {f"a{number:04}": {"keywords": ["bug"], "priority": number % 100} for number in range(1_000)}

    candidates = routed("bug", catalog_of(**agents)).candidates

    assert len(candidates) == SHOWN
    assert candidates[0].agent == "a0099"
    assert min(route.score for route in candidates) == 10


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "prompt", ["a" * 1_000_000, "a " * 500_000, "tests " * 170_000, "错" * 300_000, "\ud800" * 1000]
)
def test_a_hostile_request_is_answered_soon(shipped: Catalog, prompt: str) -> None:
    hostile = catalog_of(a={"patterns": ["(a+)+$", "(a|aa)+b", "(.*a){20}b"], "keywords": ["aaaa", "a a"]})

    routed(prompt, hostile)
    routed(prompt, shipped)


def test_patterns_that_take_long_never_hold_the_loop_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.dispatcher.routing.lexicon._MOST_S", 0.1)
    patterns = [f"a[ab]{{{900 + n}}}c" for n in range(90)]
    catalog = catalog_of(**{f"a{n}": {"patterns": patterns[n::9]} for n in range(9)})
    router = RuleRouter()
    prompt = "".join(random.Random(1).choices("ab", k=200_000)) + " aac"

    async def route() -> RoutingResult:
        return await router.route(prompt, catalog)

    with capture_logs() as logs:
        assert asyncio.run(beside_a_ticking_loop(route)).route is None
    assert [log["event"] for log in logs] == ["patterns_not_tried"]


def test_what_stands_behind_the_first_20_000_characters_decides_nothing() -> None:
    catalog = catalog_of(a={"keywords": ["bug"], "patterns": ["crash"]})
    assert routed("x " * 9_000 + "bug", catalog).route is not None
    assert routed("x " * 11_000 + "bug crash", catalog).route is None
