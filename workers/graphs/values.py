"""What the expressions of a graph come to: which edges are taken, and what nodes are given."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ekiden.shared.conditions import Condition, Expression, names_in
from ekiden.shared.definitions.graph import END, MOST_ITEMS, Edge, Graph
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.definitions.graph_templates import filled
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ConditionFailed, DefinitionError, GraphFailed
from ekiden.shared.graph_run import ENTRY, GraphRun
from ekiden.shared.instructions import plain
from ekiden.workers.node_calls import ASK_USER, call_of

__all__ = ["GraphInForce", "Values"]

MOST_OF_ITEMS = 5_000_000
"""Characters that all items of a list are given together: they stand in one job's request."""
MAX_SHOWN = 300
"""Characters of a value in the message of a job that fails."""
_FALSE = "false"
NO_ITEM: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class GraphInForce:
    """A graph as a job's catalog has it."""

    name: str
    """The agent whose file has it."""
    graph: Graph
    channels: Channels
    agent: AgentDefinition
    agents: Mapping[str, AgentDefinition]
    """The agents of its nodes, by name."""


class Values:
    """The values of a graph's expressions, at one moment of its run."""

    def __init__(
        self, force: GraphInForce, run: GraphRun, state: Mapping[str, Any], task: Callable[[], Mapping[str, Any]]
    ) -> None:
        """``task``: returns the variable of that name; most steps ask nothing."""
        self._force = force
        self._run = run
        self._state = state
        self._task = task

    def next(self, node: str, output: Any) -> tuple[str, ...]:
        """Return where the edges lead that are taken when ``node`` has ended with ``output``.

        Raises ``GraphFailed``, with each condition and its values, where none is.
        """
        edges = self._force.graph.edges_from(node)
        if not edges:
            return (END,)
        variables = self._variables_after(node, output) if any(edge.condition for edge in edges) else {}
        told = {edge: self._why_not(edge, variables) for edge in edges if not edge.default}
        taken = [edge.to for edge in edges if not told.get(edge, "by default")]
        taken = taken or [edge.to for edge in edges if edge.default]
        if not taken:
            listed = "\n".join(f"- {node} → {edge.to}{_if(edge)}: {why}" for edge, why in told.items())
            raise GraphFailed(
                f"graph {self._force.name!r}: no edge of node {node!r} holds:\n{listed}\n"
                "Add an edge with 'default: true', or mend the conditions in its file"
            )
        return tuple(dict.fromkeys(taken))

    def cut_short(self, node: str, output: Any) -> list[str]:
        """Say which edges of ``node``, which has ended with ``output``, are not taken only because they were before.

        Of a loop: that what it went round for has never held.
        """
        graph, found = self._force.graph, list[str]()
        edges = [edge for edge in graph.edges_from(node) if edge.condition and self._is_used_up(edge)]
        variables = self._variables_after(node, output) if edges else {}
        for edge in edges:
            if self._why_false(edge.condition, variables):
                continue
            if graph.orchestrate == "loop":
                until = edge.condition.removeprefix("!(").removesuffix(")")
                said = f"'until' has not held in as many rounds as 'max_rounds' allows ({graph.max_rounds}): {until}"
            else:
                often = f"as often as 'max_rounds' allows ({edge.max_rounds})"
                said = f"{node} → {edge.to}{_if(edge)} holds, but was taken {often}"
            found.append("; ".join([f"graph {self._force.name}: {said}", *self._values_in(edge.condition, variables)]))
        return found

    def untold(self, node: str, output: Any) -> list[str]:
        """Say of which edges of ``node``, which has ended with ``output``, it cannot be told whether they hold."""
        found = list[str]()
        edges = [one for one in self._force.graph.edges_from(node) if one.condition and not self._is_used_up(one)]
        variables = self._variables_after(node, output) if edges else {}
        for edge in edges:
            if (why := self._why_false(edge.condition, variables)) not in ("", _FALSE):
                said = f"graph {self._force.name}: {node} → {edge.to}{_if(edge)} is not taken, since it cannot be told"
                advice = ": has(…) asks whether it is there" if why.startswith("Key not found") else ""
                found.append(f"{said}: {why}{advice}")
        return found

    def inputs(self, name: str, item: Mapping[str, Any] = NO_ITEM) -> dict[str, Any]:
        """Return what a node that is to begin is given.

        An agent: its ``inputs``, else the ``item``, else the outputs that it comes from. A tool or a person: the call.
        Raises ``GraphFailed`` where something has no value.

        Args:
            name: The node.
            item: ``item`` and ``index``, of a node that is mapped over a list.
        """
        node = self._force.graph.by_name[name]
        if node.tool:
            return call_of(node.tool, self._filled(node.args, f"the arguments of node {name!r}", item))
        if node.ask_user:
            question = self._filled(node.ask_user, f"the question of node {name!r}", item)
            return call_of(ASK_USER, {"question": plain(question)})
        if node.inputs:
            said = node.inputs.items()
            return {one: self._value(text, f"input {one!r} of node {name!r}", item) for one, text in said}
        if item:
            return {"item": item["item"]}
        channels = self._force.channels.by_node
        outputs = {channels[one]: output for one, output in self._run.given_to(name).items()}
        return self._run.given | outputs if ENTRY in self._run.waiting[name] else outputs

    def items(self, name: str) -> list[dict[str, Any]]:
        """Return what each item of the list is given that a node is mapped over. Raises ``GraphFailed``."""
        what = f"'for_each' of node {name!r}"
        items = self._value(self._force.graph.by_name[name].for_each, what, NO_ITEM)
        if not isinstance(items, list):
            raise GraphFailed(f"graph {self._force.name!r}: {what} is {_shown(items)}, which is no list{_lists(items)}")
        if len(items) > MOST_ITEMS:
            found = f"{what} is {len(items):,} items"
            raise GraphFailed(f"graph {self._force.name!r}: {found}: a list has {MOST_ITEMS:,} at most")
        given: list[dict[str, Any]] = []
        size = 0
        for index, item in enumerate(items):
            given.append(self.inputs(name, {"item": item, "index": index}))
            size += len(json.dumps(given[-1], ensure_ascii=False))
            if size > MOST_OF_ITEMS:
                raise GraphFailed(
                    f"graph {self._force.name!r}: what node {name!r} gives to its {len(items):,} items has more than "
                    f"{MOST_OF_ITEMS:,} characters together: let 'inputs' or 'args' give less to each, such as a path"
                )
        return given

    def _value(self, text: str, what: str, item: Mapping[str, Any]) -> Any:
        with self._failing(what):
            return Expression.parse(text, self._names(item)).value({**self._variables, **item})

    def _filled(self, value: Any, what: str, item: Mapping[str, Any]) -> Any:
        with self._failing(what):
            return filled(value, {**self._variables, **item}, self._names(item))

    def _names(self, item: Mapping[str, Any]) -> tuple[str, ...]:
        return (*self._force.channels.names, *item)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ConditionFailed, DefinitionError) as error:
            raise GraphFailed(f"graph {self._force.name!r}: {what}: {error}") from None

    @cached_property
    def _variables(self) -> dict[str, Any]:
        return self._force.channels.variables(self._run.outputs, self._state, self._task())

    def _variables_after(self, node: str, output: Any) -> dict[str, Any]:
        """Return the variables as they are once ``node`` has ended with ``output``."""
        outputs = self._run.outputs | {self._force.channels.by_node[node]: output}
        return self._force.channels.variables(outputs, self._state, self._task())

    def _why_not(self, edge: Edge, variables: Mapping[str, Any]) -> str:
        """Say why an edge is not taken; empty: it is."""
        if self._is_used_up(edge):
            return f"it was taken {self._run.taken[edge.from_, edge.to]} times, as often as it may be"
        if not edge.condition or not (why := self._why_false(edge.condition, variables)):
            return ""
        return "; ".join([why, *self._values_in(edge.condition, variables)])

    def _is_used_up(self, edge: Edge) -> bool:
        return edge.max_rounds is not None and self._run.taken[edge.from_, edge.to] >= edge.max_rounds

    def _why_false(self, condition: str, variables: Mapping[str, Any]) -> str:
        """Say why a condition does not hold; empty: it does."""
        try:
            return "" if Condition.parse(condition, self._force.channels.names).holds(variables) else _FALSE
        except (ConditionFailed, DefinitionError) as error:
            return str(error).removeprefix(f"condition {condition!r}: ")

    @staticmethod
    def _values_in(condition: str, variables: Mapping[str, Any]) -> list[str]:
        """Return what the variables of a condition are, for people."""
        return [f"{name} = {_shown(variables[name])}" for name in names_in(condition) if name in variables]


def condition_of(graph: Graph, from_: str, to: str) -> str:
    """Return how the edge between two nodes is shown: `` [if: …]``; empty where it has no condition."""
    return next((_if(edge) for edge in graph.edges_from(from_) if edge.to == to), "")


def _if(edge: Edge) -> str:
    if edge.default:
        return " [else]"
    return f" [if: {edge.condition}]" if edge.condition else ""


def _lists(given: Any) -> str:
    """Say what gives a list in the place of what was given."""
    if isinstance(given, Mapping):
        return f": name one of its fields, {', '.join(list(given)[:10])}" if given else ""
    if given is None:
        return ": what it names has no output yet"
    return ": a tool gives one as the data of a ToolOutput, an agent by a 'schema' of its 'output'"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
