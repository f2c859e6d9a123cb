"""The handler of all legs of a worker: agents' legs and, where an agent is a graph, the graph's own."""

from dataclasses import replace

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import GraphFailed
from ekiden.shared.outcomes import Answer, Failed, Outcome
from ekiden.shared.records import Forked, Nudged, StateChanged, ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.request_rails import RequestRails
from ekiden.workers.definitions import Definitions
from ekiden.workers.graphs.branches import Branches
from ekiden.workers.graphs.children import Children
from ekiden.workers.graphs.guarding import Guarding
from ekiden.workers.graphs.items import Items
from ekiden.workers.graphs.steps import Steps
from ekiden.workers.graphs.values import GraphInForce
from ekiden.workers.leg import AgentHandler, unbroken

__all__ = ["GraphHandler"]

NOT_ENOUGH = "With this answer the graph that you are a step of cannot go on. Give another one:"


class GraphHandler:
    """Runs graphs' legs itself, agents' by another handler, and takes the step behind each that ends a node."""

    def __init__(self, definitions: Definitions, agents: AgentHandler, rails: RequestRails = RequestRails()) -> None:  # noqa: B008
        self._definitions = definitions
        self._agents = agents
        self._rails = rails
        self._forces: dict[tuple[str, str], GraphInForce] = {}

    async def run(self, leg: Leg) -> Outcome:
        """See ``Handler``."""
        try:
            return await unbroken(leg, self._run(leg))
        except GraphFailed as error:
            return Failed(error.reason, str(error))

    async def _run(self, leg: Leg) -> Outcome:
        if (stop := await self._rails.refused(leg)) is not None:
            return stop
        definition = await self._definitions.definition(leg.catalog, leg.agent)
        guarding = Guarding(leg, self._agents)
        steps = Steps(leg, self._definitions, guarding, self._forces)
        if leg.context.does_part:
            return await self._do_part(leg, definition, steps)
        if any(isinstance(record, Forked) for record in leg.records):
            for at in leg.context.graphs:
                await guarding.added(await self._definitions.definition(leg.catalog, at.graph))
        if definition.graph is not None:
            return await self._run_graph(leg, definition, steps, guarding)
        while True:
            outcome = await self._agents.run(leg)
            try:
                return await steps.after(outcome, leg.context)
            except GraphFailed as error:
                if not _has_failed_by_it(leg):
                    raise
                await leg.record(Nudged(leg=leg.number, text=f"{NOT_ENOUGH}\n{error}"))

    async def _run_graph(self, leg: Leg, definition: AgentDefinition, steps: Steps, guarding: Guarding) -> Outcome:
        """Begin a graph to whose agent control has come, or go on with it."""
        force, context = await steps.force(leg.agent), leg.context
        if not (context.graphs and context.graphs[-1].graph == leg.agent and not context.graphs[-1].node):
            await guarding.asked(definition)
            context = context.model_copy(update={"graphs": (*context.graphs, context.begin_graph(leg.number))})
            _set_out(leg, force)
        outcome = await Branches(leg, definition, steps, force, context).go_on()
        if isinstance(outcome, Answer):
            outcome = await guarding.answered(definition, outcome)
        return await steps.after(outcome, context.model_copy(update={"graphs": context.graphs[:-1]}))

    async def _do_part(self, leg: Leg, definition: AgentDefinition, steps: Steps) -> Outcome:
        """Do what a job below the graph's is there for: the list of a node, or one call."""
        force, at = await steps.force(leg.agent), leg.context.graphs[-1]
        node = force.graph.by_name[at.node]
        if node.for_each and at.part == "node":
            children = Children(leg, force, at, definition.delegation.timeout)
            return await Items(leg, definition, node, children).go_on()
        outcome = await self._agents.run(leg)
        data = next((one.result.data for one in reversed(leg.records) if isinstance(one, ToolFinished)), None)
        return replace(outcome, output=data) if isinstance(outcome, Answer) else outcome


def _has_failed_by_it(leg: Leg) -> bool:
    """Tell whether the job has failed with this answer before, and was retried: the agent gives another one then."""
    turns = leg.conversation.turns
    return bool(turns) and turns[-1].is_forgiven


def _set_out(leg: Leg, force: GraphInForce) -> None:
    """Give the variables of the session that the graph begins with their first values."""
    if new := {name: value for name, value in force.graph.state.items() if name not in leg.state}:
        leg.hold(StateChanged(leg=leg.number, changes=new, by=f"graph {force.name}"))
