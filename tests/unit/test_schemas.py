"""JSON Schemas of agent files."""

import subprocess
import sys
from typing import Any

import pytest

from ekiden.shared.errors import DefinitionError
from ekiden.shared.schemas import check, problems

FILES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "string"}},
        "n": {"type": "integer"},
        "under": {"$ref": "#/$defs/thing"},
    },
    "required": ["files"],
    "$defs": {"thing": {"type": "object", "additionalProperties": False}},
}


def test_a_value_that_fits_has_no_problems() -> None:
    assert problems({"files": ["a.py"], "n": 1, "under": {}}, FILES) == []


def test_problems_name_the_path_of_what_is_wrong_in_the_order_of_the_value() -> None:
    found = problems({"files": ["a", 3, "b", None], "n": "x", "under": {"k": 1}}, FILES)
    assert found[:3] == [
        "files[1]: 3 is not of type 'string'",
        "files[3]: None is not of type 'string'",
        "n: 'x' is not of type 'integer'",
    ]
    assert found[3].startswith("under: Additional properties are not allowed")


def test_what_is_missing_is_named() -> None:
    assert problems({}, FILES) == ["the whole: 'files' is a required property"]


def test_a_long_value_is_shortened_and_many_problems_are_cut() -> None:
    [one] = problems({"files": "x" * 5_000}, FILES)
    assert len(one) < 400
    assert len(problems({"files": list(range(100))}, FILES)) == 10


def test_plain_schemas_as_most_are_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    text = {"type": "string", "description": "A path."}
    check({"type": "object", "properties": {"files": {"type": "array", "items": text}}, "required": ["files"]})
    with pytest.raises(ImportError):
        check({"properties": {"size": {"type": "integer", "minimum": 1}}})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "strin"}, "at type"),
        ({"properties": {"a": {"type": 3}}}, r"at properties\.a\.type"),
        ({"properties": {"a": {"description": 3}}}, r"at properties\.a\.description"),
        ({"required": ["a", "a"]}, "at required"),
        ({"items": ["string"]}, "at items"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, r"'\$ref' must point into the schema itself"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, r"'\$ref' must point into the schema itself"),
        ({"items": {"$ref": "#/$defs/none"}}, r"'#/\$defs/none', which the schema does not have"),
        ({"pattern": "("}, "at pattern"),
        ({"items": {"pattern": "(?=a)"}}, "Look-around"),
        ({"patternProperties": {"(a+)+$": {}}}, "'patternProperties' is not available"),
        ({"type": "x" * 500}, "at type, 'x{59}"),
        ({"properties": {"a": {"items": [{"$ref": "file:///etc/passwd"}]}}}, "at|must point"),
    ],
)
def test_what_is_no_schema_or_needs_another_one_is_refused(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        check(schema)


def test_a_good_schema_is_accepted() -> None:
    check(FILES)


def test_properties_and_values_that_look_like_keywords_are_none() -> None:
    check({"properties": {"$ref": {"type": "string"}, "pattern": {}}, "default": {"$ref": "http://x"}, "const": {}})
    check({"$defs": {"patternProperties": {"type": "string"}}, "required": ["$ref"]})


def test_problems_are_in_the_order_of_the_value() -> None:
    texts = {"additionalProperties": {"type": "string"}}
    assert [line[0] for line in problems({"b": 1, "c": "", "a": 2}, texts)] == ["b", "a"]

    many = {"items": texts}
    assert problems([{"z": 1}] * 12, many)[-1].startswith("[9].z: ")


def test_of_several_alternatives_the_nearest_is_told() -> None:
    schema = {"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["z"]}]}}}

    assert problems({"x": {}}, schema) == ["x: 'z' is a required property"]


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "#/$defs/none"}, {"pattern": "(?=a)"}, {"type": "nonsense"}]
)
def test_a_schema_that_cannot_be_applied_accepts_nothing(schema: dict[str, Any]) -> None:
    [one] = problems("a", schema)

    assert "its JSON Schema cannot be applied to it" in one


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("schema", [{"type": "object"}, {"properties": {"a": {"items": {"type": "number"}}}}, {}])
def test_what_is_no_number_in_json_fits_no_schema(number: float, schema: dict[str, Any]) -> None:
    assert problems({"a": [number]}, schema) == [
        "the whole: NaN and the infinities are no JSON: give a number, or null"
    ]


def test_a_value_without_bottom_is_a_problem_and_no_crash() -> None:
    value: Any = 1
    for _ in range(3_000):
        value = [value]

    assert problems(value, {"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}})


def test_a_schema_without_bottom_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(3_000):
        schema = {"items": schema}

    with pytest.raises(DefinitionError, match="nested too deeply"):
        check(schema)


def test_no_pattern_takes_time_without_bound() -> None:
    [one] = problems("a" * 50_000 + "b", {"pattern": "(a+)+$"})  # Python's expressions would take for ever

    assert one.startswith("the whole: 'aaaa")
    assert one.endswith("… does not match '(a+)+$'")
    assert len(one) < 120


def test_importing_it_does_not_load_the_library() -> None:
    code = "import sys, ekiden.shared.schemas; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
