import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.conditions import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_LENGTH,
    MAX_TEXT,
    Condition,
    Expression,
    is_identifier,
    names_in,
)
from ekiden.shared.errors import ConditionFailed, DefinitionError

VARIABLES = {
    "state": {"n": 4, "f": 3.0, "files": ["a.py", "b.md"], "ready": True, "none": None, "名": "值"},
    "output": {"summary": "all done", "score": 0.5},
    "task": {"status": "need-review", "depth": 1},
}


def holds(text: str, variables: dict[str, Any] | None = None) -> bool:
    return Condition.parse(text).holds(VARIABLES if variables is None else variables)


def refused(text: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        Condition.parse(text)
    return str(caught.value)


def failed(text: str, variables: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConditionFailed) as caught:
        holds(text, variables)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("task.status == 'need-review'", True),
        ("task.status != 'need-review' || state.n > 3", True),
        ("state.ready && !(state.n < 2)", True),
        ("state.f == 3 && state.n == 4.0 && output.score < 1", True),
        ("'a.py' in state.files && size(state.files) == 2", True),
        ("state.files.exists(f, f.endsWith('.md')) && state.files.all(f, f.size() > 3)", True),
        ("state.files.filter(f, f.contains('py')).size() == 2", False),
        ("output.summary.matches('^all') && state.none == null && state['名'] == '值'", True),
        ("has(state.missing)", False),
        ("has(state.missing) && state.missing > 1", False),
        ("state.missing > 1 || state.ready", True),
        ("task.status in ['done', 'failed'] ? true : false", False),
    ],
)
def test_says_whether_it_is_true(text: str, truth: bool) -> None:
    assert holds(text) is truth


def test_the_output_may_be_a_text() -> None:
    assert holds("output.contains('DONE')", {"output": "It is DONE."})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task.status === 'x'", "(line 1, column 15). CEL compares with '==' and '!='"),
        ("task.status !== 'x'", "CEL compares with '==' and '!='"),
        ("state.n = 4", "(line 1, column 9). CEL compares with '=='"),
        ("state.a and state.b", "column 9). CEL writes '&&', '||' and '!'"),
        ("state.files.map(f, f) == []", "'map' does not exist here"),
        ("state.n == None", "CEL writes 'true', 'false' and 'null'"),
        ("states.n == 1", "'states.n' is unknown (line 1, column 7). The variables are output, state, task"),
        ("state.ok == 1 &&\n  now() > 1", "'now' is unknown (line 2, column 6)"),
        ("state.n +", "mismatched input '<EOF>' (line 1, column 10)"),
        ("(", "(line 1, column 2)"),
        ("", "(line 1, column 1)"),
        ("1 + 1", "must be true or false; it is of type int"),
        ("'state.ready'", "it is of type string"),
        ("\ud800 == 1", "cannot be read as CEL"),
        ("output.matches('(')", "pattern '(' is not a regular expression of RE2"),
        ("output.matches('[ab]{999}' + state.p)", "the pattern of 'matches' must be written out"),
        (f"output.matches('{'([ab]{900})' * 3}x')", "is too large to run: 2,7"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place_and_what_is_meant(text: str, said: str) -> None:
    message = refused(text)

    assert said in message
    assert repr(text) in message


def test_what_stands_in_a_text_is_no_comparison() -> None:
    assert "CEL compares" not in refused("state.s == 'a = b' &&")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state.missing == 1", "Key not found in map"),
        ("state.n", "is 4, which is neither true nor false"),
        ("state.files", "neither true nor false"),
        ("state.n && true", "No matching overloads"),
        ("state.none > 1", "No matching overloads"),
        ("state.files[7] == ''", "index=7 size=2"),
        ("1 / (state.n - 4) == 0", "divide by zero"),
        ("output.summary.score == 1", "non-message"),
    ],
)
def test_what_cannot_be_told_fails_with_the_reason(text: str, said: str) -> None:
    assert said in failed(text)


def test_a_variable_that_is_not_there_fails() -> None:
    assert "task" in failed("task.status == 'x'", {"state": {}})


def test_a_number_that_cel_does_not_have_fails() -> None:
    assert "out of range" in failed("state.n > 1", {"state": {"n": 2**70}})


def test_the_length_of_an_expression_is_bounded() -> None:
    longest = "true".ljust(MAX_LENGTH)

    assert holds(longest)
    assert "has 1,001" in refused(longest + " ")


NUMBERS = "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
DOUBLED = "".join(f"[{one} + {one}].all({other}, " for one, other in pairwise("abcdefghijk"))
PAIRED = "".join(f"[[{one}, {one}]].all({other}, " for one, other in pairwise("abcdefghijk"))
ENDLESS = [
    f"{NUMBERS}.all(a, " * 6 + "true" + ")" * 6,
    "state.l.all(a, " * 4 + "true" + ")" * 4,
    "state.l.all(x, output.matches('a[ab]{500}c'))",
    "output.matches(state.p)",
]
DEAR = [
    "state.l.all(x, state.l == state.l)",
    "state.l.all(x, !(5000 in state.l))",
    "state.l.all(a, state.l.exists(b, a == b))",
    "state.l.filter(x, true).size() > 0",
    "state.l.all(x, (state.l + state.l).size() > 1)",
    "state.l.all(x, (output + output + output).size() > 0)",
    f"state.l.all(x, !output.contains('{'a' * 200}b'))",
    "state.l.all(x, !state.s.contains(output))",
    "output.matches('a[ab]{900}c')",
    f"[output + output].all(a, {DOUBLED}true{')' * 11}",
    f"[[state.l, state.l]].all(a, {PAIRED}k == k{')' * 11}",
]


@pytest.mark.parametrize("text", ENDLESS)
def test_a_condition_that_costs_too_much_with_the_least_to_look_at_is_refused(text: str) -> None:
    message = refused(text)

    assert "costs too much" in message or "must be written out" in message


@pytest.mark.parametrize("text", DEAR)
def test_a_condition_that_costs_too_much_with_what_it_looks_at_is_never_run(text: str) -> None:
    large = {"state": {"l": list(range(MAX_ENTRIES - 10)), "s": "a" * 40_000}, "output": "ab" * 20_000}
    began = time.thread_time()

    assert "costs too much with what it looks at" in failed(text, large)
    assert time.thread_time() - began < 2


def test_no_condition_that_is_run_takes_longer_than_its_cost_says() -> None:
    """Just below the bound, whatever it is spent on."""
    for text in DEAR:
        for size in (20, 60, 100, 200, 400, 600, 1_000):
            values = {"state": {"l": list(range(size)), "s": "a" * 20 * size}, "output": "ab" * 10 * size}
            began = time.thread_time()
            with suppress(ConditionFailed):
                holds(text, values)
            assert time.thread_time() - began < 1, (text, size)


def test_an_ordinary_condition_on_an_ordinary_amount_of_data_is_far_from_the_bound() -> None:
    files = [f"src/package/module_{number}.py" for number in range(1_000)]
    values = {"state": {"files": files}, "output": {"text": "word " * 10_000}, "task": {}}

    assert holds("state.files.exists(f, f.endsWith('_999.py')) && !state.files.exists(f, f.contains('.md'))", values)
    assert holds("!output.text.contains('DONE') && !output.text.matches('(?i)all tests? passed')", values)


@pytest.mark.parametrize("text", ["(" * 400 + "1" + ")" * 400 + " == 1", "state" + "[0]" * 300 + " == 1", "[" * 900])
def test_nested_expressions_are_refused(text: str) -> None:
    assert "cannot be read as CEL" in refused(text)


def test_a_value_that_would_overflow_the_stack_is_never_looked_at() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert f"{MAX_DEPTH} levels" in failed("size(state) == 1", {"state": deep})
    assert holds("task.ok", {"state": deep, "task": {"ok": True}})

    while deep:  # Python would take it apart recursively, too
        deep = deep[0]


@pytest.mark.parametrize(
    "value",
    [[0] * (MAX_ENTRIES + 1), {str(n): n for n in range(MAX_ENTRIES)}, "x" * (MAX_TEXT + 1), [{"x" * MAX_TEXT: "y"}]],
)
def test_what_is_too_large_is_never_looked_at(value: Any) -> None:
    assert "too large for a condition" in failed("state.v != 1 && task.ok", {"state": {"v": value}, "task": {"ok": 1}})
    assert holds("task.ok", {"state": {"v": value}, "task": {"ok": True}})


def _json() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
        max_leaves=20,
    )


SIGNS = st.characters(categories=[], include_characters="state.output[]()!&|=<>'\"0123 +-?:,{}\\\n\ud800名")


@given(st.text(SIGNS), _json())
def test_any_text_and_any_value_end_in_a_truth_or_in_our_errors(text: str, value: Any) -> None:
    for expression in (text, f"state == {text}", "state.a == output", "state == output", "size(state) > 1"):
        with suppress(ConditionFailed, DefinitionError):
            assert Condition.parse(expression).holds({"state": value, "output": value, "task": {}}) in (True, False)


def test_importing_it_does_not_load_cel() -> None:
    code = "import sys, ekiden.shared.conditions; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_expressions_look_at_the_variables_that_they_may_name() -> None:
    condition = Condition.parse("fix.applied && on", ["fix", "on"])

    assert condition.holds({"fix": {"applied": True}, "on": True})
    with pytest.raises(DefinitionError, match=r"'fxi.ok' is unknown .* The variables are fix, task"):
        Condition.parse("fxi.ok", ["fix", "task"])
    with pytest.raises(DefinitionError, match="Did you mean 'step7'"):
        Condition.parse("stp7.ok", [f"step{n}" for n in range(30)])


def test_an_expression_has_a_value_of_any_type() -> None:
    assert Expression.parse("state.files.filter(f, f.endsWith('.py'))").value(VARIABLES) == ["a.py"]
    assert Expression.parse("{'n': state.n, 'u': 2u}").value(VARIABLES) == {"n": 4, "u": 2}
    assert Expression.parse("[1.5, null, 'x']", []).value({}) == [1.5, None, "x"]
    with pytest.raises(ConditionFailed, match="which is no JSON"):
        Expression.parse("1.0 / 0.0").value({})


def test_an_expression_for_a_value_looks_at_a_list_of_a_thousand_objects() -> None:
    files = [{"path": f"{n}.py", "lines": n} for n in range(1_000)]

    assert len(Expression.parse("state.files").value({"state": {"files": files}})) == 1_000


def test_it_is_checked_whether_a_text_is_an_expression_before_it_is_known_what_it_may_name() -> None:
    Expression.check_syntax("unknown.x + other['y']")
    with pytest.raises(DefinitionError, match=r"condition 'a and b' cannot be read as CEL: .* CEL writes '&&'"):
        Condition.check_syntax("a and b")


def test_a_name_may_be_given_twice_and_be_one_of_a_function() -> None:
    assert Expression.parse("size + item", ["item", "size", "item"]).value({"item": 1, "size": 2}) == 3


@pytest.mark.parametrize("name", ["int", "type", "null_type", "in", "loop", "a-b", "值", "1a", ""])
def test_what_cel_has_words_for_is_no_name(name: str) -> None:
    assert not is_identifier(name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fix.applied && !has(state.x)", ["fix", "state"]),
        ("size(plan.files) > 1 && 'no.name' != a_b", ["plan", "a_b"]),
        ("true || null == x['y']", ["x"]),
    ],
)
def test_the_names_in_an_expression_are_found(text: str, names: list[str]) -> None:
    assert names_in(text) == names
