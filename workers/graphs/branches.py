"""What of a graph is no plain step: nodes side by side, and those that are tried again, timed, or no agents.

Each is a child job, and the graph waits for them without a worker, as an agent for those that it has delegated to. It
goes on as soon as one has ended that another node can follow, or has failed; otherwise when all have ended.
"""

from collections import Counter
from typing import Any

from ekiden.shared.definitions.graph import END
from ekiden.shared.definitions.model import MOST_CHILDREN, AgentDefinition
from ekiden.shared.errors import GraphFailed
from ekiden.shared.graph_run import Visit
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.outcomes import ALL_SUCCEED, ANY_ENDS, AS_LONG_AS_THEY_CAN, ChildJob, Outcome, Suspended
from ekiden.shared.records import Delegated, Ended
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.shared.stores.views import JobView
from ekiden.workers.graphs.children import ITEMS, Children
from ekiden.workers.graphs.run import run_of
from ekiden.workers.graphs.steps import Steps, answer_of, check_in_reach, check_may_begin, is_plain, used_up
from ekiden.workers.graphs.tries import (
    NextTry,
    behind,
    next_try,
    since_retry,
    still_stopping,
    why_failed,
    why_not_again,
)
from ekiden.workers.graphs.values import GraphInForce

__all__ = ["Branches", "error_of"]


class Branches:
    """Goes on with a graph in a leg of its own."""

    def __init__(
        self, leg: Leg, agent: AgentDefinition, steps: Steps, force: GraphInForce, context: HandoffContext
    ) -> None:
        """``agent``: the graph's; ``context``: that of the leg, with this graph as its last one."""
        self._leg = leg
        self._agent = agent
        self._steps = steps
        self._force = force
        self._graph = force.graph
        self._context = context
        self._before: dict[str, str] = {}
        """Nodes that had not ended when the job was retried, and the child jobs behind whose records they go on."""
        self._run = run_of(leg, force.graph, context.graphs[-1])

    async def go_on(self) -> Outcome:
        """Take in what has ended, and begin what may begin now. Raises ``GraphFailed``."""
        if (pause := await self._collect()) is not None:
            return pause
        if self._run.is_over:
            return answer_of(self._run)
        name = self._run.alone()
        if name is not None and name not in self._before and is_plain(self._graph.by_name[name]):
            return await self._steps.next(self._force, self._run, self._context)
        if (end := used_up(self._leg)) is not None:
            return end
        children = await self._begin()
        named = ", ".join(visit.node for visit in self._run.running.values())
        return Suspended("children", 0.0, named, tuple(children), self._need())

    async def _collect(self) -> Suspended | None:
        """Take in the child jobs that have ended since the graph had control; return the pause before that, if any."""
        visits = list(self._run.running.values())
        views = {view.id: view for view in await self._leg.children([visit.child for visit in visits])}
        if (pause := still_stopping(self._leg, [views[one.child] for one in visits if one.is_retried])) is not None:
            return pause
        ends = await self._leg.ends([job for job, view in views.items() if view.is_over])
        ended = [visit for visit in visits if visit.child in ends and not _is_given_up(visit, views[visit.child])]
        for visit in sorted(ended, key=lambda visit: ends[visit.child].status != "done"):  # a failure may be the end
            await self._take(visit, ends[visit.child], views[visit.child])
        return None

    async def _take(self, visit: Visit, end: Ended, view: JobView) -> None:
        if end.status == "done":
            output = end.answer if end.output is None else end.output
            untrusted = f"node {visit.node}, which read such text" if view.untrusted else ""
            how = {"call_id": visit.call_id, "untrusted": untrusted}
            self._leg.hold(*await self._steps.finished(self._force, self._run, visit.node, output, **how))
        elif visit.is_retried:
            await self._take_up(visit)
        else:
            node, again = self._graph.by_name[visit.node], await self._next_try(visit, end)
            self._take_failure(visit, await why_failed(self._leg, node, visit.child, error_of(end)), again)

    async def _take_up(self, visit: Visit) -> None:
        """Let a node that had not ended well when the job was retried begin once more, if it may."""
        node = self._graph.by_name[visit.node]
        again = await since_retry(self._leg, node, visit.child, is_list=bool(node.for_each))
        if again is None:
            self._take_failure(visit, why_not_again(self._leg, node, visit.child), None)
            return
        self._run.take_back(visit.call_id)
        self._run.keys[visit.node] = again.key
        if again.behind:
            self._before[visit.node] = again.behind

    def _take_failure(self, visit: Visit, why: str, again: NextTry | None) -> None:
        if again is None and not self._goes_on_without(visit.node):
            times = f" {tries} times" if (tries := self._run.tries[visit.node] + 1) > 1 else ""
            raise GraphFailed(f"graph {self._force.name!r}: node {visit.node!r} has failed{times}: {why}")
        tried: dict[str, Any] = {"again": again is not None, "key": again.key if again else ""}
        record = self._steps.noted(self._force, self._run, visit.node, error=why, call_id=visit.call_id, **tried)
        for to in self._after(visit.node) if again is None else ():
            if not self._may_be_given_up(to):
                check_in_reach(self._force, self._run, to)
        self._leg.hold(record)  # else it begins anew when the job is retried

    async def _next_try(self, visit: Visit, end: Ended) -> NextTry | None:
        node = self._graph.by_name[visit.node]
        if node.for_each or self._run.tries[visit.node] >= node.retry:  # items had their tries
            return None
        return await next_try(self._leg, node, visit.child, end)

    def _goes_on_without(self, node: str) -> bool:
        """Tell whether all that can follow a node waits for some of its branches only."""
        after = self._after(node)
        return END not in after and all(self._graph.by_name[to].quorum for to in after)

    async def _begin(self) -> list[ChildJob]:
        """Return all that is waited for: what runs, and what begins now."""
        make = Children(self._leg, self._force, self._context.graphs[-1], self._agent.delegation.timeout)
        values = self._steps.values(self._force, self._run)
        begun: list[ChildJob] = []
        while len(begun) < MOST_CHILDREN and (ready := self._run.ready()):
            name = ready[0]
            node, call_id = self._graph.by_name[name], self._run.next_call(name)
            check_may_begin(self._force, self._run, name)
            if node.for_each:
                inputs = {ITEMS: await run_limited(lambda: values.items(name))}  # noqa: B023  # run at once
            else:
                inputs = await run_limited(lambda: values.inputs(name))  # noqa: B023  # as above
            child = make.child(node, call_id, inputs, key=self._run.keys.get(name, ""))
            before, is_as_begun = self._before.pop(name, ""), bool(node.for_each) or not node.runner
            begun.append(child := await behind(self._leg, child, before, is_as_begun=is_as_begun))
            self._run.note(Delegated(leg=self._leg.number, call_id=call_id, child="", agent=child.agent))
        known = [visit for visit in self._run.running.values() if visit.child]
        return [
            *(make.known(self._graph.by_name[visit.node], visit.call_id, visit.child) for visit in known),
            *make.numbered([child for child in begun if child.call_id in self._run.running]),  # else given up already
        ]

    def _need(self) -> int:
        """Return what the graph waits for: the first end that lets another node begin, or all of them, or a failure.

        Where all that runs leads to one join that needs some of it only, the store gives up the rest by itself.
        """
        nodes = [visit.node for visit in self._run.running.values()]
        after = {to for node in nodes for to in self._after(node)}
        if len(after) == 1 and (to := next(iter(after))) != END and (quorum := self._graph.by_name[to].quorum):
            needed = quorum - len(self._run.waiting.get(to, ()))
            if not (0 < needed <= len(nodes) and self._is_certain(nodes)):
                return ANY_ENDS
            return needed if self._may_be_given_up(to) else AS_LONG_AS_THEY_CAN + needed
        times, all_bits = Counter(nodes), self._graph.bits(nodes)
        others = {node: all_bits & ~self._graph.bits([node] if times[node] == 1 else ()) for node in times}
        return (
            ALL_SUCCEED
            if all(self._waits(node, others[node]) for node in nodes) and self._is_certain(nodes)
            else ANY_ENDS
        )

    def _may_be_given_up(self, join: str) -> bool:
        """Tell whether another join, behind this one, may have enough without it."""
        bit = self._graph.bits([join])
        return any(node.quorum and self._graph.reaching(node.name) & bit for node in self._graph.nodes)

    def _is_certain(self, nodes: list[str]) -> bool:
        """Tell whether nothing has to be looked at before ``nodes`` have ended: none chooses, or is tried again."""
        edges = [edge for node in nodes for edge in self._graph.edges_from(node)]
        if any(edge.condition or edge.max_rounds for edge in edges) or self._run.ready():
            return False
        return not any(self._graph.by_name[node].retry for node in nodes)

    def _waits(self, node: str, others: int) -> bool:
        """Tell whether nothing can follow ``node`` before one of ``others`` has ended, which run beside it."""
        return all(to == END or others & self._graph.reaching(to) for to in self._after(node))

    def _after(self, node: str) -> set[str]:
        return {edge.to for edge in self._graph.edges_from(node)} or {END}


def _is_given_up(visit: Visit, view: JobView) -> bool:
    """Tell whether a join had enough without it: the store has stopped it, and the node behind begins now."""
    return view.status == "cancelled" and view.stop == "parent" and not visit.is_retried


def error_of(end: Ended) -> str:
    """Return why a child job has given no result."""
    return end.error or end.answer or end.status
