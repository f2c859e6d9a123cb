"""Who acts in each leg of a job, as people tell them apart: agents, and of a graph its nodes with what they run."""

from typing import NamedTuple

from ekiden.shared.records import Delegated, HandedOff, LegStarted, ModelReplied, Record

__all__ = ["Actor", "Actors"]


class Actor(NamedTuple):
    """Somebody who has control, or works for who has it.

    ``str`` of it: ``writer``, ``draft (writer)``, of a graph within a graph ``edit/draft (writer)``.
    """

    agent: str
    """Empty: the node is done without one, as tools and questions are."""
    nodes: tuple[str, ...] = ()
    """The nodes that it works in, that of the outermost graph first."""

    @property
    def node(self) -> str:
        """The nodes as one text; empty: it is in none."""
        return "/".join(self.nodes)

    def ended(self, status: str) -> str:
        """Return how it has ended: a node whose call gave no result has failed, and no agent has given up."""
        return "failed" if status == "unfinished" and self.nodes and not self.agent else status

    def __str__(self) -> str:
        if not self.nodes or not self.agent:
            return self.node or self.agent
        return self.node if self.nodes[-1] == self.agent else f"{self.node} ({self.agent})"


class Actors:
    """Reads them off one journal. ``note`` is the only writer."""

    def __init__(self, above: Actor | None = None) -> None:
        """``above``: what the journal of the job above calls who does this one; None: nothing is known of that."""
        self._above = above or Actor("")
        self._names: dict[int, str] = {}
        """The agent of each leg; that of a graph, where it is done without one."""
        self._of_leg: dict[int, Actor] = {}
        self._calls: set[tuple[int, str]] = set()
        self.below: dict[str, Actor] = {}
        """Who does the jobs that this one has begun, by their ids."""

    @property
    def last(self) -> Actor:
        """Who has control."""
        return self.of(max(self._of_leg, default=0))

    def of(self, leg: int) -> Actor:
        """Return who acts in a leg."""
        return self._of_leg.get(leg, Actor("agent"))

    def call(self, leg: int, call_id: str, job: str = "") -> str:
        """Return what people call a call: that of a node by the node, any other by its id.

        ``job``: whose it is, below this one; empty: its own.
        """
        actor = self.below.get(job, Actor(job)) if job else self.of(leg)
        if actor.node and not actor.agent:
            return actor.node
        return f"{job}:{call_id}" if job else call_id

    def named(self, agent: str) -> str:
        """Return what an agent is called that had control, with the node of the last time."""
        return next((str(self._of_leg[leg]) for leg in reversed(self._of_leg) if self._names[leg] == agent), agent)

    def note(self, record: Record) -> None:
        """Take in a record, in the journal's order."""
        match record:
            case LegStarted(leg=leg, agent=agent) if self._names.get(leg) != agent:
                self._names[leg], self._of_leg[leg] = agent, Actor(agent)
            case HandedOff(leg=leg, context=context):
                nodes = (at.node for at in context.graphs if at.node and not at.part)
                agent = "" if context.does_part else context.to_agent
                self._names[leg + 1] = context.to_agent
                self._of_leg[leg + 1] = Actor(agent, (*self._above.nodes, *nodes))
            case ModelReplied(leg=leg, message=message):
                self._calls.update((leg, call.id) for call in message.calls)
            case Delegated(child=child):
                self.below[child] = self._called(record)
            case _:
                pass

    def _called(self, record: Delegated) -> Actor:
        """Return who does a child job: what no model has called is a node, or an item of one."""
        if (record.leg, record.call_id) in self._calls:
            return Actor(record.agent)
        here = self.of(record.leg)
        agent = "" if record.agent == self._names.get(record.leg) else record.agent
        if not here.agent:
            item, bracket, _ = record.call_id.rpartition("]")
            return Actor(agent, (*here.nodes[:-1], item + bracket))
        node = record.call_id.rpartition("#")[0]
        return Actor(agent, (*here.nodes, node)) if node else Actor(record.agent)
