"""Whether a node that calls a tool gives it what it takes; what expressions come to, nobody knows yet."""

from collections.abc import Iterator, Mapping
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.definitions.graph_templates import expressions_in, filled
from ekiden.shared.errors import DefinitionError
from ekiden.shared.schemas import problems
from ekiden.shared.suggestions import nearest

__all__ = ["wrong_arguments"]

_TAKEN_OVER = ("$defs", "definitions")
"""What the schemas of single arguments may refer to."""


def wrong_arguments(node: Node, schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with the arguments of a node, by the schema of its tool: the place in it, and what to do."""
    properties, said = schema.get("properties", {}), f"the node {node.name!r} calls {node.tool!r}"
    for name, value in node.args.items():
        if name in properties:
            for problem in _of_value(name, value, schema):
                yield ("args", name), f"{said} with {problem}. Mend it in 'args'"
        elif not schema.get("additionalProperties"):
            near = nearest(name, properties, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"It takes {', '.join(properties) or 'none'}"
            yield ("args", name), f"{said} with an argument {name!r} that it does not take. {advice}"
    for name in schema.get("required", ()):
        if name not in node.args:
            yield ("tool",), f"{said} without the argument {name!r}, which it needs. Add it to 'args'"


def _of_value(name: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    try:
        if expressions_in(value):
            return []
    except DefinitionError:  # which is told as such
        return []
    whole = {key: schema[key] for key in _TAKEN_OVER if key in schema}
    one = {"type": "object", "properties": {name: schema["properties"][name]}}
    return problems({name: filled(value, {}, ())}, whole | one)
