"""Orchestrators: the three usual graphs, written as a list of agents.

============  ==============================================================================================
sequential    one after the other
parallel      all side by side; ``merge`` says how the answer is made of theirs
loop          one after the other, again ``until`` a condition holds, ``max_rounds`` times at most
============  ==============================================================================================
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ekiden.shared.definitions.fields import folded
from ekiden.shared.definitions.graph import DEFAULT_ROUNDS, END, SHORT_FORM
from ekiden.shared.definitions.graph_parsing import (
    FIELD,
    check_condition,
    check_known,
    fault,
    read_graph,
    read_nodes,
    read_rounds,
    text_of,
)
from ekiden.shared.faults import as_written

__all__ = ["FIELDS", "take_graph"]

_ORCHESTRATE, _AGENTS = "orchestrate", "agents"
FIELDS = (FIELD, _ORCHESTRATE, *SHORT_FORM)
"""Those that say a graph."""
_OWN = {"sequential": (), "parallel": ("merge",), "loop": ("until", "max_rounds")}


def take_graph(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Take a graph, in any form, out of the fields of a file; None: it has none. Raises ``AgentFileError``."""
    long, form = raw.pop(FIELD, None), raw.get(_ORCHESTRATE)
    if long and form:
        raise fault(f"'graph' and {_ORCHESTRATE!r} stand beside each other: leave one out", (_ORCHESTRATE,))
    if form:
        return _short_form(raw)
    if long:
        return read_graph(long)
    if folded(raw.get("kind")) == FIELD:
        raise fault(f"'kind' is 'graph', and there is no {FIELD!r}, and no {_ORCHESTRATE!r}. Add one", ("kind",))
    return None


def _short_form(raw: dict[str, Any]) -> dict[str, Any]:
    form = raw.pop(_ORCHESTRATE)
    if form not in _OWN:
        raise fault(f"{_ORCHESTRATE!r} must be {', '.join(_OWN)}, not {as_written(form)}", (_ORCHESTRATE,))
    given = {key: raw.pop(key) for key in SHORT_FORM if key in raw}
    given = {key: value for key, value in given.items() if value is not None}
    for key in given:
        if key not in (_AGENTS, *_OWN[form]):
            of = next(other for other, own in _OWN.items() if key in own)
            raise fault(f"{key!r} has no effect on {_ORCHESTRATE!r} {form!r}: it is for {of!r}. Remove it", (key,))
    agents = given.get(_AGENTS)
    nodes = read_nodes(agents.split(",") if isinstance(agents, str) else agents, (_AGENTS,))
    _tell_apart(nodes)
    return {**_FORMS[form](nodes, given), "orchestrate": form}


def _sequential(nodes: list[dict[str, Any]], _given: Mapping[str, Any]) -> dict[str, Any]:
    return {"entry": [nodes[0]["name"]], "nodes": nodes, "edges": _in_a_row(nodes)}


def _parallel(nodes: list[dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    graph = {"entry": [node["name"] for node in nodes], "nodes": nodes, "edges": []}
    merge = given.get("merge", "by_name")
    if merge in ("list", "by_name"):
        return {**graph, "merge": merge}
    if not isinstance(merge, Mapping) or not text_of(merge, "agent", ("merge",)):
        raise fault(f"'merge' must be list, by_name or {{agent: NAME}}, not {as_written(merge)}", ("merge",))
    check_known(merge, ["agent"], "'merge'", ("merge",))
    together = [*nodes, *read_nodes([merge["agent"]], ("merge",))]
    _tell_apart(together)
    edges = [{"from": node["name"], "to": together[-1]["name"]} for node in nodes]
    return {**graph, "nodes": together, "edges": edges}


def _loop(nodes: list[dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Make the loop: back to the first unless it is enough, and out of it where it does not go back."""
    until = text_of(given, "until", ())
    if not until and "max_rounds" not in given:
        raise fault("a loop needs 'until', a condition, or 'max_rounds'. Add one", (_ORCHESTRATE,))
    rounds = read_rounds(given.get("max_rounds", DEFAULT_ROUNDS), ("max_rounds",))
    first, last = nodes[0]["name"], nodes[-1]["name"]
    edges = _in_a_row(nodes)
    if until:
        check_condition(until, ("until",))
    if until and rounds == 1:
        raise fault(
            "a loop of one round asks 'until' nothing. Take it out, or give 'max_rounds' more than 1", ("until",)
        )
    if rounds > 1:
        condition = {"condition": f"!({until})"} if until else {}
        edges.append({"from": last, "to": first, **condition, "max_rounds": rounds - 1})
    edges.append({"from": last, "to": END, "default": True})
    return {"entry": [first], "nodes": nodes, "edges": edges, "max_rounds": rounds}


_FORMS = {"sequential": _sequential, "parallel": _parallel, "loop": _loop}


def _in_a_row(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"from": one["name"], "to": other["name"]} for one, other in pairwise(nodes)]


def _tell_apart(nodes: list[dict[str, Any]]) -> None:
    """Give the second node of a name another one: an agent may be in a list twice."""
    taken: set[str] = set()
    for node in nodes:
        name, number = node["name"], 2
        while node["name"] in taken:
            node["name"], number = f"{name}-{number}", number + 1
        taken.add(node["name"])
