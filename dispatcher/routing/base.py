"""What a router answers, whatever it looks at."""

from typing import Protocol

from pydantic import BaseModel, ConfigDict

from shared.definitions.catalog import Catalog

__all__ = ["Route", "Router", "RoutingResult"]


class Route(BaseModel):
    """An agent that could take the request, and what speaks for it."""

    model_config = ConfigDict(frozen=True)

    agent: str
    stage: str
    """Who chose: ``rule``, ``agent`` (named by the user), and what comes later."""
    score: float
    confidence: float
    """0 to 100."""
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()


class RoutingResult(BaseModel):
    """The choice, if there is one, and all agents that were in question, best first."""

    model_config = ConfigDict(frozen=True)

    route: Route | None = None
    candidates: tuple[Route, ...] = ()


class Router(Protocol):
    """Chooses the first agent of a job."""

    async def route(self, prompt: str, catalog: Catalog) -> RoutingResult:
        """Choose among the agents of ``catalog``; no choice is an answer too."""
        ...
