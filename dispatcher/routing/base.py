"""What a router answers, whatever it looks at."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.definitions.agent_inputs import needs_inputs
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.records import RoutingStage

__all__ = ["NO_CONTEXT", "OUT", "SHOWN", "RequestContext", "Route", "Router", "RoutingResult", "routable"]

SHOWN = 20
"""How many candidates a router names at most: a registry may hold thousands that match."""
OUT = -math.inf
_SYSTEM = "system"


class Route(BaseModel):
    """An agent that could take the request, and what speaks for it."""

    model_config = ConfigDict(frozen=True)

    agent: str
    stage: str
    """Who chose: ``rule``, ``semantic``, ``llm``, ``agent`` (named by the user), ``session`` or ``fallback``."""
    score: float
    """The points of a rule; how surely the request belongs to anybody here (0 to 100) by meaning."""
    confidence: float
    """0 to 100: how surely this agent is the right one."""
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()
    reason: str = ""
    """What a model said of its choice."""


class RoutingResult(BaseModel):
    """The choice, if there is one; the candidates, best first; and what each stage that looked found."""

    model_config = ConfigDict(frozen=True)

    route: Route | None = None
    candidates: tuple[Route, ...] = ()
    stages: tuple[RoutingStage, ...] = ()
    belonging: float = 0.0
    """0 to 100: how surely the request belongs to anybody here, unrounded, for measuring."""
    evidence: Mapping[str, float] = Field(default_factory=dict)
    """What keywords and patterns say for each agent, in logarithms of odds; ``OUT``: it is not to have the request."""


@dataclass(frozen=True)
class RequestContext:
    """What a request comes with."""

    earlier: tuple[str, ...] = ()
    """What the user said last in the same session, oldest first."""
    observed: Callable[[ChatModel], ChatModel] = lambda model: model
    """Lets those who listen see what a model is asked."""


NO_CONTEXT = RequestContext()


@runtime_checkable
class Router(Protocol):
    """Chooses the first agent of a job. Plug-ins bring such objects, or classes of them (the group ``routers``)."""

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """Choose among the agents of ``catalog``; no choice is an answer too."""
        ...


def routable(catalog: Catalog) -> list[AgentDefinition]:
    """Return the agents that requests may go to: not those of ``scope: system``, which serve Ekiden itself.

    Nor those that need more than a request: who names one gives it its inputs, too.
    """
    return [agent for agent in catalog.agents.values() if agent.scope != _SYSTEM and not needs_inputs(agent)]
