"""What holds at the edges of graphs, and of what they are asked and answer: guardrails and hooks.

Those of a graph's own file judge what the graph is asked, what goes along its edges, and its answer; those of the file
of a node's agent what goes along the edges of the node, as they judge what that agent hands over.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ekiden.shared.definitions.graph import END
from ekiden.shared.definitions.graph_outputs import readers_of
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import GraphFailed
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.outcomes import Answer, Unfinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.schemas import problems
from ekiden.shared.step_limits import run_limited
from ekiden.workers.graphs.values import GraphInForce, condition_of
from ekiden.workers.judgements import About
from ekiden.workers.leg import AgentHandler
from ekiden.workers.rails import for_words, unreadable, violation, with_answer

__all__ = ["Guarding"]

BLOCKED: Final = "GUARDRAIL"
Form = Callable[[Subject], list[str]]
NO_JSON = "the whole: it is a text, and no JSON"


class Guarding:
    """Asks in one leg. All raise ``GraphFailed`` where something does not pass."""

    def __init__(self, leg: Leg, agents: AgentHandler) -> None:
        """``agents``: knows who judges, and who interferes."""
        self._leg = leg
        self._agents = agents

    async def asked(self, graph: AgentDefinition) -> None:
        """Judge what a graph is asked that begins."""
        if why := unreadable(graph):
            raise GraphFailed(why, BLOCKED)
        leg = self._leg
        handed_over = None if leg.number == 1 else leg.context
        await self._passed(graph, About("input"), Subject.asked(leg.asked, leg.request.inputs, handed_over))

    async def added(self, graph: AgentDefinition) -> None:
        """Judge what the user has added in a fork to what a graph was asked that has begun."""
        if self._leg.added:
            await self._passed(graph, About("input", f"graph:{graph.name}"), Subject(self._leg.added))

    async def along(self, force: GraphInForce, node: str, output: Any, taken: Sequence[str], visit: str) -> Any:
        """Return what a node has given as it goes on: along the edges that are taken, or where expressions give it.

        Args:
            force: The graph.
            node: Which has ended.
            output: What it has given.
            taken: Where those edges lead.
            visit: Which beginning of the node it is.
        """
        targets = [to for to in taken if to != END]
        readers = [] if targets else readers_of(force.graph, force.channels, node)
        if not targets and not readers:
            return output
        runner = force.agents.get(force.graph.by_name[node].runner)
        agents = [agent for agent in (runner, force.agent) if agent is not None]
        hooks = self._agents.hooks(self._leg, *agents)
        begun, onward = visit or node, f" → {', '.join(targets)}" if targets else f", for {', '.join(readers)}"
        for to in targets:
            if next_agent := force.graph.by_name[to].runner:
                edge, way = f"edge:{begun} → {to}", f"{node} → {to}{condition_of(force.graph, node, to)}"
                if why := await hooks.why_not_along(edge, next_agent, way, output):
                    raise GraphFailed(f"graph {force.name!r}: {why}", "DENIED")
        if runner is not None and not force.graph.by_name[node].for_each:
            output = await self._judged_along(runner, output, begun + onward, partial(_faults, runner))
        elif runner is not None:
            output = [await self._entry(runner, one, f"{begun}[{n}]{onward}") for n, one in enumerate(output)]
        return await self._judged_along(force.agent, output, begun + onward)

    async def _entry(self, runner: AgentDefinition, output: Any, way: str) -> Any:
        """Return what an agent has given for an item of a list; where it has failed, that has no form to check."""
        has_failed = isinstance(output, dict) and output.keys() == {"error"}
        return await self._judged_along(runner, output, way, partial(_faults, runner), is_error=has_failed)

    async def _judged_along(
        self, agent: AgentDefinition, output: Any, way: str, form: Form = lambda _: [], *, is_error: bool = False
    ) -> Any:
        """Return what goes along an edge as the guardrails of one file let it pass; ``form``: see ``About``."""
        about, given = About("handoff", f"edge:{agent.name}: {way}", form), Subject.of(output)
        passed = await self._passed(agent, about, given, f", {way}", is_error=is_error)
        return output if passed is given else passed.value

    async def answered(self, graph: AgentDefinition, outcome: Answer | Unfinished) -> Answer | Unfinished:
        """Return the answer of a graph, or what is in its place, as it may be given; structured, if it must be.

        The word that it could not be done, and that of an agent which ends the whole job, have no form to check.
        """
        is_word = isinstance(outcome, Unfinished) or outcome.is_final
        output = None if isinstance(outcome, Unfinished) else outcome.output
        given = Subject(outcome.text) if output is None else Subject.of(output)
        about = About("output", f"graph:{graph.name}", partial(_faults, graph))
        passed = await self._passed(graph, about, given, is_error=is_word)
        outcome = outcome if passed is given else with_answer(outcome, passed)
        return outcome if isinstance(outcome, Unfinished) or is_word else await self._structured(graph, outcome)

    async def _structured(self, graph: AgentDefinition, answer: Answer) -> Answer:
        """Return an answer as the graph's file declares it; a text that is JSON counts as that."""
        if not (schema := _declared(graph)):
            return answer
        value = answer.output
        if value is None and schema.get("type") == "string":
            value = answer.text
        elif value is None:
            value = await run_limited(partial(_said_as_json, answer.text))
        found = [NO_JSON] if value is None else await run_limited(lambda: problems(value, schema))
        if found:
            listed = "\n".join(f"- {problem}" for problem in found)
            raise GraphFailed(f"graph {graph.name!r}: its answer does not fit 'output.schema' of its file:\n{listed}")
        return replace(answer, output=value)

    async def _passed(
        self, agent: AgentDefinition, about: About, given: Subject, how: str = "", *, is_error: bool = False
    ) -> Subject:
        """Return what the guardrails of an agent's file let pass at a place; ``how``: what else is said where not."""
        rails = [rail for rail in agent.guardrails if about.place in rail.on]
        if not rails:
            return given
        judgements = self._agents.judgements(self._leg, agent)
        passed, failed, asked = await judgements.of(about, given, for_words(rails, is_error=is_error))
        if failed or asked:  # nobody is asked here: the files of graphs must not say so
            raise GraphFailed(violation(agent.name, failed or asked[-1], how), BLOCKED)
        return passed


def _said_as_json(text: str) -> Any:
    """Return what a text says that is JSON; None: it is none."""
    with suppress(ValueError):
        return Subject(text).as_json()
    return None


def _declared(agent: AgentDefinition) -> dict[str, Any]:
    return agent.output.schema_ if agent.output else {}


def _faults(agent: AgentDefinition, fixed: Subject) -> list[str]:
    """Return what is wrong with a repaired object by the agent's own declaration of its output."""
    schema = _declared(agent)
    return problems(fixed.data, schema) if schema and fixed.data is not None else []
