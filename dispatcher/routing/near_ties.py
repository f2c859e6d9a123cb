"""Requests that several agents could take about as likely: then whoever asked is asked, if somebody is there."""

from collections.abc import Iterable, Sequence

from ekiden.dispatcher.routing.base import RoutingResult
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition

__all__ = ["near_in", "numbered", "question"]

_NEAR = 0.5
"""How sure of another agent, of how sure of the best one. Of such choices less than half are right, and in five of six
the right one is among the near ones; they are one in twenty (measured on the sets of ``tests.benchmarks.routing``)."""
_MOST = 5
_JUDGED = ("rule", "semantic")
"""The stages whose figures can be held against each other."""


def near_in(result: RoutingResult, catalog: Catalog) -> tuple[str, ...]:
    """Return the chosen agent and those of ``catalog`` that are about as likely; empty: there are none of these."""
    best = result.route
    if best is None or best.stage not in _JUDGED:
        return ()
    others = [one.agent for one in result.candidates if one.confidence >= _NEAR * best.confidence]
    near = [best.agent, *(agent for agent in others if agent != best.agent and agent in catalog)]
    return tuple(near[:_MOST]) if len(near) > 1 else ()


def question(near: Sequence[str], catalog: Catalog) -> str:
    """Say, numbered, who could take a request."""
    lines = numbered(catalog.agents[name] for name in near)
    return "\n".join(["several agents are about as likely. Name one with @NAME or --agent NAME:", *lines])


def numbered(agents: Iterable[AgentDefinition]) -> list[str]:
    """Return a line for each agent, to choose from by number."""
    return [f"  {number}. {agent.name} - {agent.description}" for number, agent in enumerate(agents, 1)]
