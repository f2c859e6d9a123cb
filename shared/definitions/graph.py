"""A graph of an agent file: which agents, tools and people have a part in a job, and what leads from one to the next.

A job begins at ``entry``. When a node has ended, each of its edges whose condition holds is taken; where several are,
the nodes behind them run side by side. A branch ends at ``END``, and at a node that has no edges; the job ends with the
last branch. No edge that holds is a failure.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ekiden.shared.bounds import NUMBER, between
from ekiden.shared.definitions.rules import Nested, is_none

__all__ = ["DEFAULT_ROUNDS", "END", "MOST_ITEMS", "SHORT_FORM", "Edge", "Graph", "Node"]

END = "END"
"""Where edges lead that end a branch."""
DEFAULT_ROUNDS = 25
MOST_ITEMS = 1_000
"""Of a list that a node is mapped over."""
SHORT_FORM = ("agents", "until", "max_rounds", "merge")
"""What a file says beside ``orchestrate``."""

_Rounds = Annotated[int, between(1, 10_000), NUMBER]


def _check_join(value: str) -> str:
    if not re.fullmatch(r"all|any|quorum:[1-9][0-9]{0,2}", value):
        raise ValueError("must be all, any or quorum:<n>, with n from 1 to 999")
    return value


class Node(Nested):
    """One step: an agent, a graph, a tool or a question; just one of these four is not empty."""

    name: str = Field(min_length=1, max_length=200)
    agent: str = Field(default="", exclude_if=operator.not_)
    graph: str = Field(default="", exclude_if=operator.not_)
    """The agent whose graph it is."""
    tool: str = Field(default="", exclude_if=operator.not_)
    ask_user: str = Field(default="", exclude_if=operator.not_)
    """A question, in which ``${expression}`` stands for its value; the answer is the output."""
    args: dict[str, Any] = Field(default_factory=dict, exclude_if=operator.not_)
    """What the tool is called with; ``${expression}`` in a text stands for its value."""
    inputs: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    """Input of the agent to the expression for it."""
    for_each: str = Field(default="", exclude_if=operator.not_)
    """An expression for a list: the node runs once for each ``item``, and its output is the list of theirs."""
    join: Annotated[str, AfterValidator(_check_join)] = "all"
    """What it waits for where several edges lead to it: ``all`` branches under way that can still come to it, ``any``
    of them, or ``quorum:<n>``."""
    retry: Annotated[int, between(0, 10), NUMBER] = 0
    """Further tries when it has failed."""
    timeout: Annotated[float, between(0.1, 604_800), NUMBER] | None = Field(default=None, exclude_if=is_none)
    """Seconds; None: those of a delegation."""
    output: str = Field(default="", exclude_if=operator.not_)
    """The channel of its output; empty: see ``Channels``."""

    @property
    def kind(self) -> Literal["agent", "graph", "tool", "ask_user"]:
        """Which of the four it is."""
        return "agent" if self.agent else "graph" if self.graph else "tool" if self.tool else "ask_user"

    @property
    def runner(self) -> str:
        """The agent that it runs, also one with a graph; empty where it runs none."""
        return self.agent or self.graph

    @property
    def quorum(self) -> int:
        """Branches that must have come to it before it begins; 0: all of them."""
        return 0 if self.join == "all" else 1 if self.join == "any" else int(self.join.removeprefix("quorum:"))


class Edge(Nested):
    """A way from a node to the next, or to ``END``."""

    from_: str = Field(alias="from", min_length=1)
    to: str = Field(min_length=1)
    condition: str = Field(default="", exclude_if=operator.not_)
    """Whether it is taken when its node has ended; empty: always."""
    default: bool = Field(default=False, exclude_if=operator.not_)
    """It is taken if no other edge of its node is."""
    max_rounds: _Rounds | None = Field(default=None, exclude_if=is_none)
    """How often it is taken in a job; from then on it does not hold. None: as often as the graph goes round."""


class Graph(Nested):
    """The graph of an agent."""

    entry: tuple[str, ...] = Field(min_length=1)
    """The nodes that a job begins with; several begin side by side."""
    nodes: tuple[Node, ...] = Field(min_length=1)
    edges: tuple[Edge, ...] = ()
    state: dict[str, Any] = Field(default_factory=dict, exclude_if=operator.not_)
    """Variables of the session that a job begins with, where they have no value yet."""
    max_rounds: _Rounds = DEFAULT_ROUNDS
    """How often one node begins in a job at most: the job fails where it would once more."""
    merge: Literal["list", "by_name"] | None = Field(default=None, exclude_if=is_none)
    """How the answer is made of the outputs of the nodes at which branches ended: in their order, or by their names.
    None: by their names where they are several, else the output itself."""
    orchestrate: Literal["sequential", "parallel", "loop"] | None = Field(default=None, exclude_if=is_none)
    """The short form that it was written in."""

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    def edges_from(self, name: str) -> tuple[Edge, ...]:
        """Return the edges that leave a node, in the order of the file."""
        return self._leaving.get(name, ())

    def edges_to(self, name: str) -> tuple[Edge, ...]:
        """Return the edges that lead to a node."""
        return self._arriving.get(name, ())

    def always_takes(self, edge: Edge) -> bool:
        """Tell whether an edge is taken each time that its node ends."""
        is_alone = len(self.edges_from(edge.from_)) == 1
        return not edge.condition and edge.max_rounds is None and (is_alone or not edge.default)

    def bits(self, names: Iterable[str]) -> int:
        """Return a set of nodes as a number: its questions are asked of all nodes, each time that a graph goes on."""
        return reduce(operator.or_, (self._bit[name] for name in names), 0)

    def reaching(self, name: str) -> int:
        """Return the nodes, as ``bits``, from which a branch can come to ``name`` without another round."""
        return self._reaching.get(name, 0)

    def most_coming(self, name: str, busy: Sequence[str]) -> int | None:
        """Return how many branches can come to ``name`` at most from nodes that run, or begin; None: nobody can tell.

        A node ends once each time that it runs, and begins once more where a branch can come to it.
        """
        ways = self._ways_to(name)
        reached, new = set[str](), [one for one in busy if one in ways]
        while new:
            new = [
                edge.to for one in new for edge in self.edges_from(one) if edge.to in ways and edge.to not in reached
            ]
            reached |= set(new)
        on_way = ways & {*reached, *busy}
        try:
            TopologicalSorter({one: on_way & {edge.from_ for edge in self.edges_to(one)} for one in on_way}).prepare()
        except CycleError:
            return None
        times = Counter(busy)
        return sum(times[edge.from_] + (edge.from_ in reached) for edge in self.edges_to(name))

    def ends_without(self, name: str, busy: Iterable[str]) -> bool:
        """Tell whether a branch can come to an end from nodes that run, or begin, while none comes to ``name``.

        A node that always leads there is no such way: where it fails, the graph does, or its branch ends nowhere.
        """
        seen, left = {name}, list(busy)
        while left:
            if (one := left.pop()) in seen:
                continue
            seen.add(one)
            edges = self.edges_from(one)
            if not any(edge.to == name and self.always_takes(edge) for edge in edges):
                left += [edge.to for edge in edges] or [END]
        return END in seen

    def _ways_to(self, name: str) -> set[str]:
        """Return the nodes from which a branch can come to ``name`` before it begins."""
        found, new = set[str](), [name]
        while new:
            new = [edge.from_ for one in new for edge in self.edges_to(one) if edge.from_ not in {*found, name}]
            found |= set(new)
        return found

    @cached_property
    def _bit(self) -> dict[str, int]:
        return {node.name: 1 << number for number, node in enumerate(self.nodes)}

    @cached_property
    def _reaching(self) -> dict[str, int]:
        before = self._before()
        found: dict[str, int] = {}
        for name in TopologicalSorter(before).static_order():
            those = before.get(name, ())
            found[name] = reduce(operator.or_, (found[one] for one in those), self.bits(those))
        return found

    def _before(self) -> dict[str, list[str]]:
        """Return the nodes just before each, without edges that lead back: round a loop all come to each other."""
        before: dict[str, list[str]] = {}
        on_way: dict[str, None] = {}
        seen: set[str] = set()
        left = [(0, name) for name in reversed(self.entry)]
        while left:
            depth, name = left.pop()
            while len(on_way) > depth:
                on_way.popitem()
            if name in seen:
                continue
            seen.add(name)
            on_way[name] = None
            for edge in reversed(self.edges_from(name)):
                if edge.to != END and edge.to not in on_way:
                    before.setdefault(edge.to, []).append(name)
                    left.append((len(on_way), edge.to))
        return before

    @cached_property
    def _leaving(self) -> dict[str, tuple[Edge, ...]]:
        return _by(operator.attrgetter("from_"), self.edges)

    @cached_property
    def _arriving(self) -> dict[str, tuple[Edge, ...]]:
        return _by(operator.attrgetter("to"), self.edges)


def _by(end: Callable[[Edge], str], edges: Iterable[Edge]) -> dict[str, tuple[Edge, ...]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(end(edge), []).append(edge)
    return {name: tuple(those) for name, those in found.items()}
