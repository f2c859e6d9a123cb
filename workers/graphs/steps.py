"""How a graph goes on where one node follows another: each is a leg of the same job, as after a handoff."""

from collections.abc import Sequence
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.definitions.graph_channels import Channels
from ekiden.shared.errors import GraphFailed
from ekiden.shared.graph_run import ENTRY, GraphRun
from ekiden.shared.handoff import GraphPosition, HandoffContext
from ekiden.shared.instructions import plain
from ekiden.shared.job_limits import why_no_budget
from ekiden.shared.outcomes import Answer, Failed, Outcome, Transfer, Unfinished
from ekiden.shared.records import NodeFinished, Noticed, Record
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.definitions import Definitions
from ekiden.workers.graphs.guarding import Guarding
from ekiden.workers.graphs.run import run_of
from ekiden.workers.graphs.values import GraphInForce, Values, condition_of
from ekiden.workers.job_variables import task_variables
from ekiden.workers.limits import REASONS

__all__ = ["Steps", "answer_of", "check_in_reach", "check_may_begin", "is_plain", "used_up", "way_to"]

MOST_KNOWN = 100
"""How many graphs a process keeps, with the definitions of their nodes' agents."""


class Steps:
    """Takes the steps of the graphs that one leg is in."""

    def __init__(
        self, leg: Leg, definitions: Definitions, guarding: Guarding, forces: dict[tuple[str, str], GraphInForce]
    ) -> None:
        """``forces``: what this process has put together, by catalog and agent."""
        self._leg = leg
        self._definitions = definitions
        self._guarding = guarding
        self._forces = forces

    async def after(self, outcome: Outcome, context: HandoffContext) -> Outcome:
        """Return what comes of an outcome: the next step, where it is the answer of a node.

        Where a graph is over by that, its answer is that of the node that it is itself, if it is one.
        ``context``: that of the leg, in the graphs that it is in beside its own. Raises ``GraphFailed``.
        """
        ended: list[Record] = []
        while isinstance(outcome, Answer) and not outcome.is_final and context.ends_node:
            at = context.graphs[-1]
            force = await self.force(at.graph)
            run = run_of(self._leg, force.graph, at)
            output = outcome.text if outcome.output is None else outcome.output
            ended.extend(await self.finished(force, run, at.node, output))
            if not run.is_over:
                outcome = await self.next(force, run, context)
                break
            outcome = outcome if force.graph.merge is None and set(run.ended) == {at.node} else answer_of(run)
            outcome = await self._guarding.answered(force.agent, outcome)
            context = context.model_copy(update={"graphs": context.graphs[:-1]})
        if isinstance(outcome, Answer | Unfinished):
            outcome = await self._ended_by(outcome, context)
        if not isinstance(outcome, Failed):  # else the agent gives another answer when the job is retried
            self._leg.hold(*ended)  # now that nothing is written any more but with what comes of it
        return outcome

    async def _ended_by(self, outcome: Answer | Unfinished, context: HandoffContext) -> Answer | Unfinished:
        """Let the graphs judge what ends them, and is no answer of a node: that all is over, or cannot be done."""
        is_final = isinstance(outcome, Answer) and outcome.is_final
        for at in reversed(context.graphs):
            if is_final or (isinstance(outcome, Unfinished) and at.calls == len(context.calls)):
                outcome = await self._guarding.answered((await self.force(at.graph)).agent, outcome)
        return outcome

    async def force(self, name: str) -> GraphInForce:
        """Return the graph of an agent of the job's catalog."""
        if (known := self._forces.get((self._leg.catalog, name))) is not None:
            return known
        if len(self._forces) >= MOST_KNOWN:
            self._forces.clear()
        self._forces[self._leg.catalog, name] = force = await self._put_together(name)
        return force

    async def _put_together(self, name: str) -> GraphInForce:
        definition = await self._definitions.definition(self._leg.catalog, name)
        assert definition.graph is not None, "who has a position in a graph has one"
        known = await self._definitions.manifest(self._leg.catalog)
        names = {node.runner for node in definition.graph.nodes if node.runner in known}
        agents = {one: await self._definitions.definition(self._leg.catalog, one) for one in names}
        return GraphInForce(name, definition.graph, Channels.of(definition.graph, agents), definition, agents)

    def values(self, force: GraphInForce, run: GraphRun) -> Values:
        """Return what the graph's expressions come to now."""
        given = {"inputs": run.given} if run.given else {}
        return Values(force, run, self._leg.state, lambda: {**task_variables(self._leg), **given})

    async def finished(
        self, force: GraphInForce, run: GraphRun, node: str, output: Any, call_id: str = "", **how: Any
    ) -> list[Record]:
        """Let ``run`` know that a node has ended, and which of its edges are taken; return the records of it.

        ``how``: what the last of them says besides. Raises ``GraphFailed``: no edge is taken, or ``output`` must not
        go along it.
        """
        values = self.values(force, run)
        taken, told = await run_limited(
            lambda: (values.next(node, output), [*values.cut_short(node, output), *self._news(values, node, output)])
        )
        output = await self._guarding.along(force, node, output, taken, run.running.get(call_id) if call_id else None)
        said = [Noticed(leg=self._leg.number, text=text) for text in told]
        return [*said, self.noted(force, run, node, output=output, next=taken, call_id=call_id, **how)]

    def _news(self, values: Values, node: str, output: Any) -> list[str]:
        """Return what cannot be told of the edges of ``node`` and was not said before, as in a loop."""
        told = values.untold(node, output)
        known = {one.record.text for one in self._leg.entries if isinstance(one.record, Noticed)} if told else set()
        return [text for text in told if text not in known]

    def noted(self, force: GraphInForce, run: GraphRun, node: str, **how: Any) -> NodeFinished:
        """Let ``run`` know how a node has ended, as the record says it that is returned."""
        about = {"leg": self._leg.number, "graph": force.name, "run": run.at.run}
        record = NodeFinished(**about, node=node, channel=force.channels.by_node[node], **how)
        run.note(record)
        return record

    async def next(self, force: GraphInForce, run: GraphRun, context: HandoffContext) -> Transfer | Failed:
        """Return the step to the one node that begins now; where it is no plain step, to the graph, which begins it.

        Or the end of a job that may begin nothing more. Raises ``GraphFailed``.

        Args:
            force: The graph.
            run: How far it is.
            context: That of the leg, in this graph as the last.
        """
        if (end := used_up(self._leg)) is not None:
            return end
        name = run.alone()
        if name is None or not is_plain(force.graph.by_name[name]):
            return _step(context, force.name, f"steps of graph {force.name}", run.at.model_copy(update={"node": ""}))
        check_may_begin(force, run, name)
        inputs = await run_limited(lambda: self.values(force, run).inputs(name))
        at = run.at.model_copy(update={"node": name, "step": run.steps + 1})
        return _step(context, force.graph.by_name[name].runner, way_to(force, run, name), at, inputs)


def used_up(leg: Leg) -> Failed | None:
    """Return the end of a job whose limits leave nothing for another node."""
    used = next((used for used in leg.spending.values() if used.share >= 1), None)
    if used is None:
        return None
    own = f"the graph's job has reached its limit ({used.limit}: {used.most:.10g}): raise it under 'limits.job' in the "
    own += "file of the agent that the job began with, or in the settings"
    return Failed(REASONS[used.limit], why_no_budget(used) or own)


def is_plain(node: Node) -> bool:
    """Tell whether a node, where it runs alone, is a leg like any other: else child jobs do it."""
    return bool(node.runner) and not (node.for_each or node.retry or node.timeout)


def check_may_begin(force: GraphInForce, run: GraphRun, name: str) -> None:
    """Raise ``GraphFailed`` where a node that is to begin must not."""
    most = force.graph.max_rounds
    if run.begun[name] >= most:
        raise GraphFailed(
            f"graph {force.name!r}: node {name!r} has begun {most} times, as often as it may: mend what leads back to "
            "it, or raise 'max_rounds' in its file"
        )
    if run.lacks(name):
        raise _lacking(force, run, name, "none")


def check_in_reach(force: GraphInForce, run: GraphRun, name: str) -> None:
    """Raise ``GraphFailed`` where the job hangs on a join that waits for more branches than can still come to it."""
    most = run.most_coming(name)
    if most is not None and most < run.lacks(name) and run.hangs_on(name):
        raise _lacking(force, run, name, f"only {most}" if most else "none")


def _lacking(force: GraphInForce, run: GraphRun, name: str, coming: str) -> GraphFailed:
    failed = "".join(f"\n- {node}: {why}" for node, why in run.errors.items())
    return GraphFailed(
        f"graph {force.name!r}: node {name!r} waits for {run.lacks(name)} more branches (join: "
        f"{force.graph.by_name[name].join}), and {coming} can come to it any more{failed}"
    )


def way_to(force: GraphInForce, run: GraphRun, name: str) -> str:
    """Say by which edges control comes to a node that is to begin, as people and its agent read it."""
    came_from = run.waiting[name]
    if ENTRY in came_from:
        return f"entry of graph {force.name}: {name}"
    return ", ".join(f"{one} → {name}{condition_of(force.graph, one, name)}" for one in dict.fromkeys(came_from))


def answer_of(run: GraphRun) -> Answer:
    """Return a graph's answer: of the nodes at which its branches have ended, as it says."""
    outputs = {node.name: run.by_node[node.name] for node in run.graph.nodes if node.name in run.ended}
    if not outputs:
        raise GraphFailed(f"graph {run.at.graph!r}: no branch has come to an end")
    output: Any = outputs
    if run.graph.merge == "list":
        output = list(outputs.values())
    elif run.graph.merge is None and len(outputs) == 1:
        [output] = outputs.values()
    return Answer(plain(output), output=None if isinstance(output, str) else output)


def _step(
    context: HandoffContext, to: str, reason: str, at: GraphPosition, inputs: dict[str, Any] | None = None
) -> Transfer:
    left: Sequence[str] = context.metadata.handoff_chain[at.chain_length :]
    if not at.node:
        left = (*left, to)  # which is in the chain already, and stays
    return Transfer(
        context.step(to, reason, (*context.graphs[:-1], at), inputs or None), left=tuple(left), is_step=True
    )
