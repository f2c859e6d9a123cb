"""What is inside a schema, and how schemas are put into another one."""

from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.shared.schemas import check, problems
from ekiden.shared.subschemas import SchemaEmbedder, parts_of


class Finding(BaseModel):
    file: str
    line: int


class Node(BaseModel):
    name: str
    below: "list[Node]" = []


class Report(BaseModel):
    findings: list[Finding]
    first: Finding | None = None
    tree: Node | None = None


def embedded(*schemas: Any) -> dict[str, Any]:
    """An object with one property for each of the schemas."""
    within = SchemaEmbedder()
    properties = {f"p{number}": within.taken(schema, schema) for number, schema in enumerate(schemas)}
    return {"type": "object", "properties": properties, **within.shared}


GOOD = {"findings": [{"file": "a.py", "line": 3}], "tree": {"name": "x", "below": [{"name": "y"}]}}


def test_what_pydantic_writes_means_the_same_below_another_schema() -> None:
    schema = embedded(Report.model_json_schema())
    check(schema)

    assert problems({"p0": GOOD}, schema) == []
    assert problems({"p0": {**GOOD, "findings": [{"file": 3, "line": 1}]}}, schema) == [
        "p0.findings[0].file: 3 is not of type 'string'"
    ]
    assert problems({"p0": {**GOOD, "tree": {"name": "x", "below": [{}]}}}, schema)


def test_every_reference_leads_to_the_common_definitions() -> None:
    schema = embedded(Report.model_json_schema())

    assert set(schema["$defs"]) == {"Finding", "Node"}
    refs = {part["$ref"] for part in parts_of(schema) if "$ref" in part}
    assert refs == {"#/$defs/Finding", "#/$defs/Node"}


def test_definitions_of_one_name_stay_apart() -> None:
    one = {"$ref": "#/$defs/F", "$defs": {"F": {"type": "string"}}}
    other = {"items": {"$ref": "#/$defs/F"}, "$defs": {"F": {"type": "integer"}, "F_1": {"type": "null"}}}
    schema = embedded(one, other, {"$ref": "#/$defs/F_1", "$defs": {"F_1": {"type": "boolean"}}})
    check(schema)

    assert len(schema["$defs"]) == 3
    assert problems({"p0": "x", "p1": [1], "p2": True}, schema) == []
    assert len(problems({"p0": 1, "p1": ["x"], "p2": None}, schema)) == 3


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"n": {"$ref": "#"}}, "required": ["v"]}, {"v": 1, "n": {"v": 1}}, {"v": 1, "n": {}}),
        ({"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}, {"b": "x"}, {"b": 1}),
        ({"definitions": {"a~/b %": {"type": "null"}}, "$ref": "#/definitions/a~0~1b%20%25"}, None, 1),
        ({"anyOf": [{"type": "null"}, {"items": {"$ref": "#/anyOf/0"}, "type": "array"}]}, [None], [1]),
        ({"$id": "https://a.example/b", "$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}, None, 1),
        ({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "null"}}}, 1, None),
        ({"dependentSchemas": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
        ({"properties": {"$defs": {"type": "null"}, "$ref": {"type": "null"}}}, {"$ref": None}, {"$ref": 1}),
        ({"const": {"$ref": "#/x"}}, {"$ref": "#/x"}, {"$ref": "#/$defs/x"}),
        (True, 1, ...),
        (False, ..., 1),
    ],
)
def test_every_kind_of_reference_means_the_same_below_another_schema(schema: Any, good: Any, bad: Any) -> None:
    inside = embedded(schema)
    check(inside)

    assert good is ... or problems({"p0": good}, inside) == []
    assert bad is ... or problems({"p0": bad}, inside)


def test_the_given_schema_stays_as_it_is() -> None:
    schema = Report.model_json_schema()
    embedded(schema)
    assert schema == Report.model_json_schema()
