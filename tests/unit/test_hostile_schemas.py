"""Schemas that are small and take for ever, at load and at use."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.shared.errors import DefinitionError
from ekiden.shared.schemas import check, problems
from ekiden.shared.step_limits import run_limited
from tests.ticking import beside_a_ticking_loop

Schema = dict[str, Any]
TEN = range(10)


def fanned(at: Callable[[list[Schema]], Schema], levels: int = 6) -> Schema:
    """A schema in which each level refers ten times to the next one: 10 ** levels ways in a kilobyte."""
    defs = {f"a{n}": at([{"$ref": f"#/$defs/a{n + 1}"} for _ in TEN]) for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "string"}}}


FANS: dict[str, Callable[[list[Schema]], Schema]] = {
    "allOf": lambda refs: {"allOf": refs},
    "anyOf": lambda refs: {"anyOf": refs},
    "oneOf": lambda refs: {"oneOf": refs},
    "not": lambda refs: {"allOf": [{"not": ref} for ref in refs]},
    "if": lambda refs: {"allOf": [{"if": ref, "then": ref, "else": ref} for ref in refs]},
    "dependentSchemas": lambda refs: {"dependentSchemas": {f"k{n}": ref for n, ref in enumerate(refs)}},
    "properties": lambda refs: {"properties": {f"k{n}": ref for n, ref in enumerate(refs)}},
    "propertyNames": lambda refs: {"propertyNames": {"allOf": refs}},
    "additionalProperties": lambda refs: {"additionalProperties": {"anyOf": refs}},
    "items": lambda refs: {"items": {"allOf": refs}},
    "prefixItems": lambda refs: {"prefixItems": refs},
    "contains": lambda refs: {"contains": {"allOf": refs}},
}


@pytest.mark.parametrize("fan", FANS.values(), ids=FANS)
def test_references_that_multiply_are_refused_at_load_and_accept_nothing_at_use(
    fan: Callable[[list[Schema]], Schema],
) -> None:
    began = time.thread_time()
    with pytest.raises(DefinitionError, match=r"it would be applied [\d,]{7,} times to one value, 20,000 are the most"):
        check(fanned(fan))

    [said] = problems("hello", fanned(fan))  # as a catalog may have it that was stored before it was checked
    assert "its JSON Schema cannot be applied to it" in said
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("word", ["unevaluatedProperties", "unevaluatedItems"])
def test_what_the_library_checks_in_quadratic_time_is_refused_at_load(word: str) -> None:
    with pytest.raises(DefinitionError, match=f"{word!r} is not available: use additionalProperties or items"):
        check({"allOf": [{"additionalProperties": True}], word: False})


@pytest.mark.parametrize("fan", FANS.values(), ids=FANS)
def test_references_that_multiply_a_little_are_accepted(fan: Callable[[list[Schema]], Schema]) -> None:
    check(fanned(fan, levels=2))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$ref": "#"}, "go in a round"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"not": {"$ref": "#"}}]}}}, "go in a round"),
        ({"$defs": {"a": {"$dynamicAnchor": "x"}}, "$dynamicRef": "#x"}, r"\$dynamic\w+' is not available: use '\$"),
        ({"$defs": {"a": {"$anchor": "x"}}, "$ref": "#x"}, "'\\$anchor' is not available"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "at the root"),
        ({"properties": {"a": {"$id": "other"}}}, "at the root of a schema only"),
        ({"pattern": "x" * 1_001}, "at most 1,000 characters, not 1,001"),
        ({"pattern": "([ab]{900})([ab]{900})([ab]{900})"}, "too large to run"),
        ({"enum": list(range(6_000))}, "too large: at most 5,000 values"),
        ({"description": "x" * 200_001}, "too large: at most 5,000 values and 200,000 characters"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(2_000)}}, "too large"),
    ],
)
def test_what_could_not_be_checked_within_a_bound_is_refused_at_load(schema: Schema, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        check(schema)


def test_recursion_is_accepted_and_works() -> None:
    tree: Schema = {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"properties": {"l": {"$ref": "#/$defs/n"}}, "required": ["v"]}},
    }
    check(tree)

    assert problems({"v": 1, "l": {"v": 2}}, tree) == []
    assert problems({"v": 1, "l": {"l": {"v": 1}}}, tree) == ["l: 'v' is a required property"]


def test_a_schema_with_a_dialect_and_an_address_is_one_document_by_our_rules() -> None:
    schema: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://a.example/b",
        "$ref": "#/$defs/a",
    }
    schema |= {"$defs": {"a": {"pattern": "^(a+)+$"}}}
    check(schema)

    assert problems("aaa", schema) == []
    assert problems("a" * 50_000 + "b", schema)  # not the library's own expressions, which would take for ever


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"c": value}
    return value


RECURSIVE: Schema = {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["x"]}
TEXT = "".join(random.Random(1).choices("ab", k=2_000))
DEAR: dict[str, tuple[Any, Schema]] = {
    "recursion of anyOf": (deep(12), {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [RECURSIVE for _ in TEN]}}}),
    "recursion of oneOf": (deep(12), {"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [RECURSIVE for _ in TEN]}}}),
    "recursion of if": (
        deep(20),
        {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [{"if": RECURSIVE, "else": RECURSIVE} for _ in TEN]}}},
    ),
    "uniqueItems": ([{"a": n} for n in range(12_000)], {"uniqueItems": True}),
    "enum": (["x"] * 20_000, {"items": {"enum": [f"y{n}" for n in range(4_000)]}}),
    "const": ([[0] * 1_000] * 40, {"items": {"anyOf": [{"const": [*[0] * 900, n]} for n in range(4)]}}),
    "pattern": ([TEXT] * 400, {"items": {"pattern": "a[ab]{900}c"}}),
    "multipleOf": ([1e308] * 20_000, {"items": {"multipleOf": 1e-300}}),
    "multipleOf of long numbers": ([10**4_000 + n for n in range(1_000)], {"items": {"multipleOf": 10**3_000 + 7}}),
    "propertyNames": (
        {f"k{n}": n for n in range(10_000)},
        {"propertyNames": {"allOf": [{"minLength": 1} for _ in TEN]}},
    ),
    "items": (list(range(45_000)), {"type": "array", "items": {"type": "integer"}}),
    "contains": (["x"] * 20_000, {"contains": {"anyOf": [{"const": n} for n in TEN]}}),
    "complaints about a long value": (["y" * 50] * 15_000, {"anyOf": [{"type": "string"} for _ in range(100)]}),
}


TOO_LONG = "the whole: to check it by its JSON Schema takes too long: give less, or something simpler"
FOUND: dict[str, list[str]] = {
    "recursion of anyOf": [TOO_LONG],
    "recursion of oneOf": [TOO_LONG],
    "enum": [TOO_LONG],
    "complaints about a long value": [TOO_LONG],
    "uniqueItems": [],
    "items": [],
}
"""What is not checked to the end is not accepted; what is large and right is."""


@pytest.mark.parametrize("name", DEAR)
def test_a_check_that_takes_long_ends_and_never_holds_the_loop(name: str) -> None:
    value, schema = DEAR[name]
    check(schema)

    began = time.process_time()
    found = asyncio.run(beside_a_ticking_loop(lambda: run_limited(lambda: problems(value, schema))))
    assert time.process_time() - began < 8  # the bound is about three seconds; the neighbours slow processors down
    assert all(len(one) < 400 for one in found)
    assert found == FOUND.get(name, found)


@pytest.mark.parametrize(
    "value", [[1] * 60_000, "x" * 1_000_001, {"a": ["y" * 600_000] * 2}, {str(n): n for n in range(30_000)}]
)
def test_a_value_that_is_too_large_is_not_looked_at(value: Any) -> None:
    [said] = problems(value, {"type": "string"})
    assert "too large: at most 50,000 values and 1,000,000 characters" in said


@pytest.mark.parametrize(
    ("value", "is_unique"),
    [
        ([1, 1.0], False),
        ([1, True, "1", None, 0, False, [1], [True]], True),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        ([[1, [2.0]], [1.0, [2]]], False),
        ([1.5, 1.5], False),
        ([2**70, 2**70 + 1], True),
    ],
)
def test_equal_means_equal_in_json(value: Any, is_unique: bool) -> None:
    assert (problems(value, {"uniqueItems": True}) == []) is is_unique
