"""Names and schemas as providers accept them."""

from typing import Any

import pytest

from ekiden.shared.llm.schema import MAX_NAME, WireNames, accepted_schema, wire_name


@pytest.mark.parametrize("name", ["read_file", "_ok", "transfer_to_code_fixer", "x" * MAX_NAME])
def test_a_good_name_stays(name: str) -> None:
    assert wire_name(name) == name


@pytest.mark.parametrize("name", ["mcp.fs.read", "mcp-fs", "1abc", "a b", "代码", "x" * 65, "é" * 200])
def test_a_bad_name_becomes_a_good_one_always_the_same(name: str) -> None:
    wire = wire_name(name)
    assert wire == wire_name(name) == wire_name(wire)
    assert WireNames([name, "other"]).original(wire) == name


def test_names_that_look_alike_stay_apart() -> None:
    names = ["mcp.fs.read", "mcp_fs_read", "mcp-fs-read", "mcp fs read", "x" * 65, "x" * 66, "代码", "翻译"]
    assert len({wire_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"$schema": "https://json-schema.org/draft", "type": "object"}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "properties": {"a": {"const": "x"}}},
            {"type": "object", "properties": {"a": {"enum": ["x"]}}},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "description": "An A."}}},
            {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "An A."}}},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        ),
        (
            {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}], "default": 1}}},
            {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}], "default": 1}}},
        ),
        (
            {"type": "object", "properties": {"const": {"type": "string", "default": {"const": 1}}}},
            {"type": "object", "properties": {"const": {"type": "string", "default": {"const": 1}}}},
        ),
        (
            {"type": "object", "properties": {"a": {"items": {"anyOf": [{"const": None}]}}}},
            {"type": "object", "properties": {"a": {"items": {"anyOf": [{"enum": [None]}]}}}},
        ),
        (
            {
                "$ref": "#/$defs/Node",
                "$defs": {"Node": {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}}},
            },
            {
                "type": "object",
                "properties": {"n": {"$ref": "#/$defs/Node"}},
                "$defs": {"Node": {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}}},
            },
        ),
        (
            {"$ref": "#/definitions/A~1B", "title": "T", "definitions": {"A/B": {"$ref": "#/definitions/C"}, "C": {}}},
            {
                "type": "object",
                "properties": {},
                "title": "T",
                "definitions": {"A/B": {"$ref": "#/definitions/C"}, "C": {}},
            },
        ),
        ({"$ref": "#"}, {"type": "object", "properties": {}}),
        ({"$ref": "#/nowhere"}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
            {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
        ),
    ],
)
def test_says_it_in_the_words_that_gemini_knows(given: dict[str, Any], accepted: dict[str, Any]) -> None:
    assert accepted_schema(given) == accepted


def test_leaves_the_given_schema_as_it_is() -> None:
    given = {"type": "object", "properties": {"a": {"const": "x"}}}
    accepted_schema(given)
    assert given == {"type": "object", "properties": {"a": {"const": "x"}}}
