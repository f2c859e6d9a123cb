"""The forms that files use for graphs, and the short forms that become one.

============  ==============================================================================================
field         forms
============  ==============================================================================================
graph         ``{entry, nodes, edges, state, max_rounds, merge}``
entry         a node's name, or a list of them
nodes         names of agents, or ``{name, agent | graph | tool | ask_user, ...}``; ``name`` may be left out
edges         ``{from, to, condition, default, max_rounds}``
orchestrate   ``sequential``, ``parallel``, ``loop`` of ``agents``, see ``graph_short_forms.py``
============  ==============================================================================================

All raise ``AgentFileError`` with the place in the file.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ekiden.shared.conditions import Condition, Expression
from ekiden.shared.definitions.graph import END, Edge, Graph, Node
from ekiden.shared.definitions.graph_templates import expressions_in
from ekiden.shared.definitions.problems import AgentFileError, all_read, together
from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import as_written
from ekiden.shared.suggestions import nearest
from ekiden.shared.variables import problem_of

__all__ = [
    "FIELD",
    "TO_COMPLETE",
    "check_condition",
    "check_known",
    "fault",
    "read_graph",
    "read_nodes",
    "read_rounds",
    "text_of",
]

FIELD = "graph"
TO_COMPLETE = "TODO"
"""How a condition begins that somebody has still to write, as in a graph from elsewhere."""
_KINDS = ("agent", "graph", "tool", "ask_user")
_MOST_NODES = 500
_MOST_EDGES = 2_000
_NODE = tuple(Node.model_fields)
_EDGE = tuple(info.alias or name for name, info in Edge.model_fields.items())
_GRAPH = tuple(name for name in Graph.model_fields if name != "orchestrate")
_MERGES = ("list", "by_name")

Place = tuple[str | int, ...]
"""Keys and numbers, from a top-level field of the file on."""


def read_graph(value: Any) -> dict[str, Any]:
    """Read ``graph`` of a file."""
    place: Place = (FIELD,)
    if not isinstance(value, Mapping):
        raise fault(f"'graph' must be an object such as {{entry: a, nodes: [...], edges: [...]}}, not {value!r}", place)
    given = {key: item for key, item in value.items() if item is not None}
    read = {**given, "entry": None, "edges": [], "state": {}}
    forms: dict[str, Callable[[Any], Any]] = {
        "entry": _entry,
        "nodes": lambda nodes: read_nodes(nodes, (FIELD, "nodes")),
        "edges": _edges,
        "state": _state,
        "max_rounds": lambda rounds: read_rounds(rounds, (FIELD, "max_rounds")),
        "merge": _merge,
    }
    needed = {"entry": None, "nodes": None, **given}

    def look(key: str) -> Any:
        return forms[key](needed[key]) if key else check_known(value, _GRAPH, "'graph'", place)

    keys = [key for key in ("", *forms) if not key or key in needed]
    values = dict(zip(keys, all_read(partial(look, key) for key in keys), strict=True))
    values.pop("")
    return read | values


def read_nodes(value: Any, place: Place) -> list[dict[str, Any]]:
    """Read a list of nodes."""
    if not isinstance(value, list) or not value or len(value) > _MOST_NODES:
        said = f"must be a list of 1 to {_MOST_NODES} nodes such as {{name: fixer, agent: code-fixer}}"
        raise fault(f"{place[-1]!r} {said}, not {value!r:.100}", place)
    return all_read(partial(_node, node, (*place, number)) for number, node in enumerate(value))


def read_rounds(value: Any, place: Place) -> int:
    """Read a number of rounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
        raise fault(f"'max_rounds' must be a whole number from 1 to 10000, not {value!r}", place)
    return value


def text_of(given: Mapping[str, Any], key: str, place: Place) -> str:
    """Return the text of a key; empty where it is not there."""
    value = given.get(key, "")
    if not isinstance(value, str):
        raise fault(f"{key!r} must be text, not {as_written(value)}; put it in quotes", (*place, key))
    return value.strip()


def check_condition(text: str, place: Place) -> None:
    """Check that a condition can be read; what it names is looked at when the other agents are known."""
    if text.startswith(TO_COMPLETE):
        raise fault(f"the condition {text!r} is to be completed: write when this edge is taken", place)
    _checked(lambda: Condition.check_syntax(text), place)


def check_known(given: Mapping[str, Any], known: Iterable[str], what: str, place: Place) -> None:
    """Refuse keys that mean nothing."""
    names = list(known)
    faults: list[AgentFileError] = []
    for key in given:
        if key not in names:
            near = nearest(str(key).casefold(), names, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}"
            faults.append(fault(f"{key!r} of {what} is not known. {advice}", (*place, str(key))))
    if faults:
        raise together(faults)


def fault(message: str, place: Place) -> AgentFileError:
    """Return the error of a place in the file."""
    return AgentFileError(message, field=str(place[0]), within=place[1:])


def _given(value: Mapping[str, Any], known: Iterable[str], what: str, place: Place) -> dict[str, Any]:
    check_known(value, known, what, place)
    return {key: item for key, item in value.items() if item is not None}


def _entry(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.strip() for name in names):
        said = "'entry' must name the node that a job begins with, or a list of those that begin side by side"
        raise fault(f"{said}, not {as_written(value)}", (FIELD, "entry"))
    return [name.strip() for name in names]


def _node(item: Any, place: Place) -> dict[str, Any]:
    if not isinstance(item, str | Mapping):
        raise fault(f"a node is an object such as {{name: fixer, agent: code-fixer}}, not {as_written(item)}", place)
    given = _given({"agent": item} if isinstance(item, str) else item, _NODE, "a node", place)
    texts = {key: text_of(given, key, place) for key in ("name", *_KINDS, "for_each", "output") if key in given}
    for kind in _KINDS:
        if texts.get(kind, "x") == "":
            raise fault(f"{kind!r} of a node is empty: say what it is, or leave it out", (*place, kind))
    kinds = [kind for kind in _KINDS if texts.get(kind)]
    if len(kinds) != 1:
        said = f"this one has {' and '.join(kinds)}" if kinds else f"this one has none: {item!r:.80}"
        raise fault(f"a node has one of {', '.join(_KINDS)}; {said}", place)
    kind = kinds[0]
    name = texts.get("name") or ("" if kind == "ask_user" else texts[kind])
    _check_name(name, place)
    for key, of in (("args", ("tool",)), ("inputs", ("agent", "graph")), ("for_each", ("agent", "graph", "tool"))):
        if given.get(key) and kind not in of:
            raise fault(
                f"{key!r} of node {name!r} has no effect: it is for nodes with {' or '.join(of)}", (*place, key)
            )
    read = {**given, **texts, "name": name}
    values = {
        "ask_user": lambda: _check_templates(texts["ask_user"], (*place, "ask_user")),
        "args": lambda: _args(given["args"], (*place, "args")),
        "inputs": lambda: _inputs(given["inputs"], (*place, "inputs")),
        "for_each": lambda: _expression(texts["for_each"], (*place, "for_each")) if texts["for_each"] else "",
    }
    keys = [key for key in values if key in given]
    found = all_read(values[key] for key in keys)
    return read | {key: value for key, value in zip(keys, found, strict=True) if value is not None}


def _args(value: Any, place: Place) -> dict[str, Any]:
    args = _object(value, "{path: '${fix.path}'}", place)
    _check_templates(args, place)
    return args


def _inputs(value: Any, place: Place) -> dict[str, str]:
    inputs = _object(value, "{objective: analysis.summary}", place)
    texts = all_read(partial(_expression, text, (*place, key)) for key, text in inputs.items())
    return dict(zip(inputs, texts, strict=True))


def _check_name(name: str, place: Place) -> None:
    if not name or not name.isprintable() or len(name) > 200:
        raise fault(f"a node needs a 'name' of one line, 200 characters at most; this one has {name!r:.80}", place)
    if name.upper() == END or name.startswith("__"):
        raise fault(f"a node cannot be named {name!r}: it means where a graph begins or ends", (*place, "name"))


def _edges(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > _MOST_EDGES:
        raise fault(f"'edges' must be a list of {_MOST_EDGES:,} {{from: a, to: b}} at most", (FIELD, "edges"))
    return all_read(partial(_edge, edge, (FIELD, "edges", number)) for number, edge in enumerate(value))


def _merge(value: Any) -> str:
    if value not in _MERGES:
        raise fault(f"'merge' must be {' or '.join(_MERGES)}, not {value!r}", (FIELD, "merge"))
    return str(value)


def _edge(item: Any, place: Place) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise fault(f"an edge is an object such as {{from: a, to: b, condition: a.ok}}, not {as_written(item)}", place)
    given = _given(item, _EDGE, "an edge", place)
    read = {**given, **{key: text_of(given, key, place) for key in ("from", "to", "condition")}}
    for key in ("from", "to"):
        if not read[key]:
            raise fault(f"an edge needs {key!r}, the name of a node; this one has none: {item!r:.80}", place)
    default = given.get("default", False)
    if not isinstance(default, bool):
        raise fault(f"'default' must be true or false, not {default!r}", (*place, "default"))
    if default and read["condition"]:
        raise fault("an edge with a 'condition' cannot be the 'default', which has none: leave one out", place)
    if read["condition"]:
        check_condition(read["condition"], (*place, "condition"))
    if "max_rounds" in given:
        read["max_rounds"] = read_rounds(given["max_rounds"], (*place, "max_rounds"))
    return read


def _state(value: Any) -> dict[str, Any]:
    state = _object(value, "{attempts: 0}", (FIELD, "state"))
    for name, item in state.items():
        if problem := problem_of(name, item):
            raise fault(f"'state': {problem}", (FIELD, "state", name))
    return state


def _object(value: Any, example: str, place: Place) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise fault(f"{place[-1]!r} must be an object such as {example}, not {as_written(value)}", place)
    return {str(key): item for key, item in value.items()}


def _expression(value: Any, place: Place) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str) or not value.strip():
        raise fault(
            f"{place[-1]!r} must be an expression such as fix.path or \"'a text'\", not {as_written(value)}", place
        )
    text = value.strip()
    _checked(lambda: Expression.check_syntax(text), place)
    return text


def _check_templates(value: Any, place: Place) -> None:
    def look() -> None:
        for text in expressions_in(value):
            Expression.check_syntax(text)

    _checked(look, place)


def _checked(look: Callable[[], object], place: Place) -> None:
    try:
        look()
    except DefinitionError as error:
        raise fault(str(error), place) from None
