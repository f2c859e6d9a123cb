"""What has become of a graph so far: the fold of its job's records, the same after a crash as before it.

Where a graph is, is said by branches. One begins at each entry; a node that ends gives one to each node that its taken
edges lead to; a node that begins takes all that have come to it. So joins need no plan: a node waits for as long as a
branch under way can still come to it, or for as many as its quorum says, and then those that are late are given up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ekiden.shared.definitions.graph import END, Graph
from ekiden.shared.handoff import GraphPosition
from ekiden.shared.records import Delegated, Entry, HandedOff, NodeFinished, Record, Retried

__all__ = ["GraphRun", "Visit", "failed_items", "item_of"]

ENTRY = ""
"""Where the branches come from that begin at the entries."""


_TELLING = frozenset({NodeFinished, HandedOff, Delegated, Retried})
"""The records that say where a graph is."""


@dataclass
class Visit:
    """A node that runs."""

    node: str
    came_from: list[str]
    """The nodes whose branches it has taken."""
    call_id: str = ""
    """What ``Delegated`` calls the child job that does it; empty: it runs in this job."""
    child: str = ""
    is_retried: bool = False
    """It had not ended when the job was retried: what has become of its child job, whoever goes on looks."""


class GraphRun:
    """One run of a graph. ``note`` is its only writer."""

    def __init__(self, graph: Graph, at: GraphPosition, entries: Iterable[Entry] = ()) -> None:
        """Begin the run that ``at`` is in, and take in what ``entries`` tell of it."""
        self.graph = graph
        self.outputs: dict[str, Any] = {}
        """Channel to its latest output."""
        self.by_node: dict[str, Any] = {}
        """Node to its latest output."""
        self.errors: dict[str, str] = {}
        """Nodes that the graph goes on without, and why."""
        self.begun: Counter[str] = Counter()
        """How often each node has begun."""
        self.tries: Counter[str] = Counter()
        """How often in a row each node has failed."""
        self.keys: dict[str, str] = {}
        """Nodes whose next try repeats a call, and the idempotency keys of these."""
        self.taken: Counter[tuple[str, str]] = Counter()
        """How often each edge was taken."""
        self.waiting: dict[str, list[str]] = {name: [ENTRY] for name in graph.entry}
        """Nodes that branches have come to, and from where each of these came; in the order in which they came."""
        self.running: dict[str, Visit] = {}
        """Nodes that run, by ``Visit.call_id``."""
        self.ended: list[str] = []
        """The nodes at which branches have ended, in that order."""
        self.given: dict[str, Any] = {}
        """What the node that the graph is itself is given by the graph around, where both run in one job."""
        self.at = at
        """Where control is in it, of all that a step does not change."""
        self._legs = {at.run}
        """The legs in which the graph itself had control."""
        self.read(entries)

    @property
    def steps(self) -> int:
        """How many nodes have begun."""
        return self.begun.total()

    @property
    def is_over(self) -> bool:
        """Whether every branch has ended."""
        return not self.waiting and not self.running

    def read(self, entries: Iterable[Entry]) -> None:
        """Take in what comes next in the journal."""
        for entry in entries:
            if type(entry.record) in _TELLING:
                self.note(entry.record)

    def note(self, record: Record) -> None:
        """Take in a record of the job, in the journal's order; what is not this run's changes nothing."""
        match record:
            case NodeFinished(run=run) if run == self.at.run:
                self._finish(record)
            case HandedOff(context=context, leg=leg) if leg + 1 == self.at.run:
                self.given = context.step_inputs or {}
            case HandedOff(kind="edge", context=context, leg=leg) if context.graphs[-1].run == self.at.run:
                if node := context.graphs[-1].node:
                    self._begin(node)
                else:
                    self._legs.add(leg + 1)
            case Delegated(leg=leg, call_id=call_id, child=child) if leg in self._legs:
                self._begin(call_id.rpartition("#")[0], call_id, child)
            case Retried(leg=leg) if leg in self._legs:
                self.running = {one: replace(visit, is_retried=True) for one, visit in self.running.items()}
            case _:
                pass

    def copy(self, graph: Graph, at: GraphPosition) -> "GraphRun":
        """Return the same run, of a leg in which control is at ``at``: what that notes is not noted here."""
        other = copy(self)
        other.graph, other.at = graph, at
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(other, name, copy(value))
        other.waiting = {name: [*came] for name, came in self.waiting.items()}
        return other

    def next_call(self, node: str) -> str:
        """Return what the child job is called that does ``node`` when it begins now.

        ``fixer#2``: the second time; ``fixer#2/3``: the third try of that.
        """
        again = f"/{self.tries[node] + 1}" if self.tries[node] else ""
        return f"{node}#{self.begun[node] + 1}{again}"

    def ready(self) -> list[str]:
        """Return the nodes that may begin now, in the order in which branches came to them.

        Nodes of a circle that wait for each other would wait for ever: the first of them begins.
        """
        busy = self.graph.bits(self.waiting) | self._running
        found = [name for name in self.waiting if self._has_quorum(name) or not busy & self.graph.reaching(name)]
        return found if found or self.running else list(self.waiting)[:1]

    def alone(self) -> str | None:
        """Return the node that begins now, if nothing runs or waits beside it then."""
        ready = self.ready()
        if len(ready) != 1:
            return None
        others = self.graph.bits(self.waiting.keys() - set(ready)) | self._running
        if self.graph.by_name[ready[0]].quorum:
            others &= ~self.graph.reaching(ready[0])
        return None if others else ready[0]

    def lacks(self, name: str) -> int:
        """Return how many branches more a node needs before it may begin."""
        return max(0, self.graph.by_name[name].quorum - len(self.waiting.get(name, ())))

    def most_coming(self, name: str) -> int | None:
        """Return how many more branches can come to a node at most; None: nobody can tell, as round a loop."""
        return self.graph.most_coming(name, self._busy_beside(name))

    def hangs_on(self, name: str) -> bool:
        """Tell whether the graph comes to no good end unless a node begins, whatever its branches do from now on.

        A branch waits at the node, or will before the graph can end: none has ended yet, and none can without it.
        """
        if self.waiting.get(name):
            return True
        return not self.ended and not self.graph.ends_without(name, self._busy_beside(name))

    def given_to(self, name: str) -> Mapping[str, Any]:
        """Return the outputs of the nodes whose branches wait at a node, by the nodes' names."""
        return {node: self.by_node[node] for node in self.waiting[name] if node in self.by_node}

    def _busy_beside(self, name: str) -> list[str]:
        """Return the nodes that run, and those other than ``name`` that branches wait at."""
        return [*(visit.node for visit in self.running.values()), *(self.waiting.keys() - {name})]

    @property
    def _running(self) -> int:
        """The nodes that run, see ``Graph.bits``."""
        return self.graph.bits(visit.node for visit in self.running.values())

    def _has_quorum(self, name: str) -> bool:
        quorum = self.graph.by_name[name].quorum
        return bool(quorum) and len(self.waiting[name]) >= quorum

    def _begin(self, name: str, call_id: str = "", child: str = "") -> None:
        if retried := [one for one, visit in self.running.items() if visit.is_retried and visit.node == name]:
            self.take_back(retried[0])
        self.running[call_id] = Visit(name, self.waiting.pop(name, [ENTRY]), call_id, child)
        self.begun[name] += 1
        if self.graph.by_name[name].quorum and len(self.running) + len(self.waiting) > 1:
            late, bits = self.graph.reaching(name), self.graph.bits
            self.waiting = {node: came for node, came in self.waiting.items() if not late & bits([node])}
            running = self.running.items()
            self.running = {one: visit for one, visit in running if one == call_id or not late & bits([visit.node])}

    def take_back(self, call_id: str) -> None:
        """Let a node that did not end begin anew."""
        if (visit := self.running.pop(call_id, None)) is not None:
            self.waiting.setdefault(visit.node, []).extend(visit.came_from)
            self.begun[visit.node] -= 1

    def _finish(self, record: NodeFinished) -> None:
        if record.again:
            self.take_back(record.call_id)
            self.tries[record.node] += 1
            self.keys[record.node] = record.key
            return
        self.running.pop(record.call_id, None)
        self.tries.pop(record.node, None)
        self.keys.pop(record.node, None)
        if record.error:
            self.errors[record.node] = record.error
        else:
            self.outputs[record.channel] = self.by_node[record.node] = record.output
        for to in record.next:
            self.taken[record.node, to] += 1
            if to == END:
                self.ended.append(record.node)
            else:
                self.waiting.setdefault(to, []).append(record.node)


def item_of(call_id: str) -> int:
    """Return which item of a list a child job does, by its call: ``node[7]``, or ``node[7]/2``."""
    return int(call_id.rpartition("[")[2].partition("]")[0])


def failed_items(records: Iterable[Record]) -> set[int]:
    """Return the items of a list that gave nothing, by what the job that did it has recorded."""
    last = {item_of(one.call_id): one.error for one in records if isinstance(one, NodeFinished)}
    return {number for number, error in last.items() if error}
