"""``--state key=value``."""

from typing import Any

import pytest

from ekiden.dispatcher.cli.running.variables import inputs_of, variables_of
from ekiden.dispatcher.requests import checked_inputs, checked_risks, checked_state
from ekiden.shared.errors import InvalidRequest


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("x=4711", 4711),
        ("x=true", True),
        ("x=null", None),
        ('x={"a": [1, "zwei"]}', {"a": [1, "zwei"]}),
        ('x="4711"', "4711"),
        ("x=plain text, with = and more", "plain text, with = and more"),
        ("x=", ""),
        ("x={broken", "{broken"),
        ("x=NaN", "NaN"),
        ("x=-Infinity", "-Infinity"),
        ("x=修复", "修复"),
        ("x=\udcff", "\ufffd"),
        ('x="\\udcff"', "\ufffd"),
    ],
)
def test_a_value_is_json_where_it_is_json_and_text_elsewhere(given: str, value: Any) -> None:
    assert variables_of([given]) == {"x": value}


def test_the_last_one_of_a_name_counts_and_none_is_none() -> None:
    assert variables_of(["a=1", "任务.n-1=2", "a=3"]) == {"a": 3, "任务.n-1": 2}
    assert variables_of(None) == variables_of([]) == {}


@pytest.mark.parametrize("given", ["ticket", "", "ticket:4711"])
def test_what_has_no_equals_sign_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no '='.*--state ticket=4711"):
        variables_of([given])


@pytest.mark.parametrize("name", ["", " x", "a b", "a/b", "x\n", "x" * 101, "\udcff"])
def test_a_name_is_letters_digits_and_a_few_marks(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"1-100 letters, digits or any of _ \. -"):
        variables_of([f"{name}=1"])


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_the_python_api_takes_json_alone(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="must be JSON"):
        checked_state({"x": value})


@pytest.mark.parametrize("given", [["a"], "a", {1: 2}, 5])
def test_what_is_no_mapping_of_names_is_refused_with_what_one_is(given: Any) -> None:
    for checked in (checked_state, lambda one: checked_inputs(one, "agent")):
        with pytest.raises(InvalidRequest, match="is no mapping of names: give"):
            checked(given)


@pytest.mark.parametrize(
    ("given", "why"), [("low", "give \\['low'\\]"), (5, "give"), ([5], "give"), (["x"], "a risk is safe")]
)
def test_what_is_no_list_of_risks_is_refused_and_no_text_is_taken_letter_by_letter(given: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        checked_risks(given)


def test_inputs_are_texts_for_the_agents_file_says_what_they_are() -> None:
    assert inputs_of(["version=1.40", "文=a=b", "deep="]) == {"version": "1.40", "文": "a=b", "deep": ""}
    assert inputs_of(None) is inputs_of([]) is None


@pytest.mark.parametrize(("given", "why"), [(["version"], "no '='.*--input"), (["a=1", "a=2"], "given twice")])
def test_an_input_without_a_value_or_given_twice_is_refused(given: list[str], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        inputs_of(given)
