"""What each node of a graph does in a job: the fold of the job's journal, and of those of the jobs below it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.shared.definitions.graph import Graph, Node
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.graph_run import GraphRun, Visit
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    Forked,
    HandedOff,
    JobRequested,
    NodeFinished,
    Record,
    Retried,
)

__all__ = ["GraphStates", "GraphView", "NodeState", "NodeView"]

NodeState = Literal["open", "waits", "runs", "done", "failed", "given_up"]
"""``open``: it has not begun; ``waits``: a branch has come to it, and others are still to come."""
_TELLING = (
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Forked,
    HandedOff,
    JobRequested,
    NodeFinished,
    Retried,
)
"""Records that say something of a graph."""
_ENDS: Mapping[str, NodeState] = {"done": "done", "cancelled": "given_up"}
_ITEMS = "items"
"""The input of a job that maps a node over a list."""


@dataclass(frozen=True)
class NodeView:
    """A node at one moment.

    Attributes:
        name: The node.
        state: What it does.
        rounds: How often it has begun.
        job: The child job that does it, or has done it last; empty: it runs in the graph's own job.
        items: Of a list: how many have ended, and how many there are.
        error: Why it has failed.
        asks: Whether it waits for a person.
    """

    name: str
    state: NodeState
    rounds: int = 0
    job: str = ""
    items: tuple[int, int] | None = None
    error: str = ""
    asks: bool = False


@dataclass(frozen=True)
class GraphView:
    """A graph at one moment of a job.

    Attributes:
        name: The agent whose file has it.
        job: The job.
        status: How the graph stands: ``running``, or how it has ended; as its job has, where that ended within it.
        run: Which of the job's runs of this graph it is, from 1.
        graph: The graph, of the catalog that the job is pinned to.
        channels: What its outputs are called.
        nodes: Its nodes, in the order of the file.
        taken: How often each edge was taken, by its two ends.
    """

    name: str
    job: str
    status: str
    run: int
    graph: Graph = field(compare=False)
    channels: Channels = field(compare=False)
    nodes: tuple[NodeView, ...]
    taken: Mapping[tuple[str, str], int]


class _Run:
    """One run of a graph, and what of it ``GraphRun`` does not need."""

    def __init__(self, graph: Graph, channels: Channels, context: HandoffContext, leg: int) -> None:
        self.name = context.to_agent
        self.channels = channels
        self.progress = GraphRun(graph, context.begin_graph(leg))
        self.ended: Counter[str] = Counter()
        """How often each node has ended."""
        self.errors: dict[str, str] = {}
        """Nodes that have failed the last time."""
        self.children: dict[str, str] = {}
        """Node to the last child job that did it."""

        self.is_left = False
        """Whether it was over when control went on from it."""

    def note(self, record: Record) -> None:
        self.is_left = self.is_left or (isinstance(record, HandedOff) and self.progress.is_over)
        self.progress.note(record)
        self.children.update({one.node: one.child for one in self.progress.running.values()})
        if isinstance(record, NodeFinished) and record.run == self.progress.at.run and not record.again:
            self.ended[record.node] += 1
            self.errors[record.node] = record.error


class GraphStates:
    """The graphs that a job has come to. ``note`` is the only writer."""

    def __init__(self, job: str, agents: Mapping[str, AgentDefinition]) -> None:
        """``agents``: those of the catalog that the job is pinned to."""
        self._job = job
        self._agents = agents
        self._journals: dict[str, list[Entry]] = defaultdict(list)
        self._forget()

    def _forget(self) -> None:
        self._runs: list[_Run] = []
        self._ends: dict[str, Ended] = {}
        self._asked: dict[str, set[str]] = defaultdict(set)
        """What each job waits for people to decide."""
        self._lengths: dict[str, int] = {}
        """Jobs that map a node over a list, and how long that is."""
        self._items: dict[str, tuple[str, str]] = {}
        """The job of an item to that of its list, and which item it is."""
        self._done: dict[str, set[str]] = defaultdict(set)
        """The items of each list that have ended."""

    @property
    def names(self) -> list[str]:
        """The graphs that it has come to, in that order."""
        return list(dict.fromkeys(run.name for run in self._runs))

    def note(self, job: str, entry: Entry) -> bool:
        """Take in an entry of the job, or of one below it; what was in its place is void: the server has lost it.

        Return whether anything may have changed by that.
        """
        journal = self._journals[job]
        is_new = not journal or journal[-1].seq < entry.seq
        while journal and journal[-1].seq >= entry.seq:
            journal.pop()
        journal.append(entry)
        if is_new:
            self._take(job, entry.record)
            return isinstance(entry.record, _TELLING)
        self._forget()
        for one, entries in self._journals.items():
            for known in entries:
                self._take(one, known.record)
        return True

    def view(self, name: str | None = None) -> GraphView | None:
        """Return the last run of a graph, or, without a name, of the first that the job has come to; None: of none."""
        runs = [run for run in self._runs if run.name == (name or self._runs[0].name)]
        if not runs:
            return None
        run = runs[-1]
        end, graph = self._ends.get(self._job), run.progress.graph
        visits = {visit.node: visit for visit in run.progress.running.values()}
        return GraphView(
            name=run.name,
            job=self._job,
            status="done" if run.is_left else end.status if end else "running",
            run=len(runs),
            graph=graph,
            channels=run.channels,
            nodes=tuple(self._node(run, node, visits.get(node.name)) for node in graph.nodes),
            taken=dict(run.progress.taken),
        )

    def _take(self, job: str, record: Record) -> None:
        if isinstance(record, Ended):
            self._ends[job] = record
            self._asked.pop(job, None)
        elif isinstance(record, Retried | Forked):
            self._ends.pop(job, None)
        elif isinstance(record, ApprovalAsked):
            self._asked[job].add(record.id)
        elif isinstance(record, Decided):
            self._asked[job].discard(record.id)
        if job != self._job:
            self._take_item(job, record)
            return
        if isinstance(record, HandedOff) and self._begins(record):
            context = record.context
            graph = self._agents[context.to_agent].graph
            assert graph is not None
            self._runs.append(_Run(graph, Channels.of(graph, self._agents), context, record.leg + 1))
        for run in self._runs:
            run.note(record)

    def _begins(self, moved: HandedOff) -> bool:
        """Tell whether control comes to a graph so that it begins: by a step of its own, it goes on."""
        context = moved.context
        at = context.graphs[-1] if context.graphs else None
        goes_on = at is not None and at.graph == context.to_agent and not at.node
        agent = self._agents.get(context.to_agent)
        is_graph = agent is not None and agent.graph is not None
        return is_graph and not goes_on and not context.does_part and moved.kind != "return"

    def _take_item(self, job: str, record: Record) -> None:
        match record:
            case JobRequested(inputs=inputs) if inputs and isinstance(inputs.get(_ITEMS), list):
                self._lengths[job] = len(inputs[_ITEMS])
            case Delegated(child=child, call_id=call_id) if job in self._lengths:
                self._items[child] = job, _item_of(call_id)
            case NodeFinished(call_id=call_id, again=False):
                self._done[job].add(_item_of(call_id))
            case Ended(status="done") if job in self._items:
                of, item = self._items[job]
                self._done[of].add(item)
            case _:
                pass

    def _node(self, run: _Run, node: Node, visit: Visit | None) -> NodeView:
        name, progress = node.name, run.progress
        job = visit.child if visit is not None else run.children.get(name, "")
        about: dict[str, Any] = {"name": name, "rounds": progress.begun[name], "job": job}
        if node.for_each and job in self._lengths:
            about["items"] = len(self._done[job]), self._lengths[job]
        if visit is not None:
            state, error = self._running(visit)
            asks = state == "runs" and bool(self._asked.get(visit.child or self._job))
            return NodeView(state=state, error=error, asks=asks, **about)
        if name in progress.waiting and self._job not in self._ends:
            return NodeView(state="waits", **about)
        if why := self._why_not_begun(run, name):
            return NodeView(state="failed", error=why, **about)
        end = self._ends.get(job)
        if progress.begun[name] > run.ended[name] or (end is not None and end.status == "cancelled"):
            return NodeView(state="given_up", **about)
        if error := run.errors.get(name, ""):
            return NodeView(state="failed", error=error, **about)
        return NodeView(state="done" if progress.begun[name] else "open", **about)

    def _why_not_begun(self, run: _Run, name: str) -> str:
        """Return the error of a job that could not begin a node, which it names; empty: that has not failed it."""
        end = self._ends.get(self._job)
        is_of_it = (
            end is not None and end.error and f"graph {run.name!r}:" in end.error and f"node {name!r}" in end.error
        )
        return end.error or "" if end is not None and is_of_it and name in run.progress.waiting else ""

    def _running(self, visit: Visit) -> tuple[NodeState, str]:
        """Return how a node stands of whose end the graph has not heard, and why it has failed, if it has."""
        end = self._ends.get(visit.child or self._job)
        if end is None:
            return ("given_up" if self._job in self._ends else "runs"), ""
        state = _ENDS.get(end.status, "failed")
        return state, (end.error or end.answer or end.status) if state == "failed" else ""


def _item_of(call_id: str) -> str:
    """Return which item a call is for, whichever try it is: ``node[7`` of ``node[7]/2``."""
    return call_id.rpartition("]")[0]
