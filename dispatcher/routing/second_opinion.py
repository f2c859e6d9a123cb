"""A model's second opinion on what rules and meaning leave open: nobody is sure, or the best agent is not sure enough.

The right agent is among their first five far more often than it is their first: the model picks one of these, or says
that it is nobody's work. Where it cannot be asked, or answers nonsense, the decision without it stands, and says so.
"""

import time
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, Router, RoutingResult
from ekiden.dispatcher.routing.followup import SESSION
from ekiden.dispatcher.routing.llm import LLM, ModelRouter, Opinion
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import MissingModel
from ekiden.shared.records import RoutingStage

__all__ = ["OFFERED", "SURE", "SecondOpinion"]

SURE = 80.0
"""Confidence of a decision that no model is asked about."""
OFFERED = 5
"""Agents that the model may choose from."""
PAUSE_S = 30.0
"""How long a model that did not answer is not asked again: each request would wait for it in vain."""


@dataclass(eq=False)
class SecondOpinion:
    """Asks ``model`` where the decision of ``first`` is open."""

    first: Router
    model: ModelRouter
    _paused_until: float = float("-inf")

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """See ``Router``."""
        found = await self.first.route(prompt, catalog, context)
        offered = _offered(found, catalog)
        if not offered or not _is_open(found):
            return found
        if (why_not := self._why_not(catalog)) is not None:
            return _standing(found, RoutingStage(stage=LLM, note=why_not)) if why_not else found
        opinion = await self.model.opinion(prompt, catalog, context, offered)
        if opinion.has_failed:
            self._paused_until = time.monotonic() + PAUSE_S
        return _overruled(found, opinion) if opinion.is_given else _standing(found, opinion.stage)

    def _why_not(self, catalog: Catalog) -> str | None:
        """Return why no model can be asked now: nothing where none was ever set up. None: one can be."""
        try:
            model = self.model.model_for(catalog)
        except MissingModel as error:
            return f"the model cannot be asked: {error}"
        if model.is_stand_in:
            return model.note
        if time.monotonic() < self._paused_until:
            return f"the model did not answer lately: it is not asked again for {PAUSE_S:g} s"
        return None


def _is_open(found: RoutingResult) -> bool:
    if found.route is not None:
        return found.route.confidence < SURE
    goes_on = any(stage.stage == SESSION and stage.agent for stage in found.stages)
    return not goes_on  # with the agent that spoke last


def _offered(found: RoutingResult, catalog: Catalog) -> list[AgentDefinition]:
    """Return the likeliest agents."""
    routes = (found.route, *found.candidates)
    names = list(dict.fromkeys(route.agent for route in routes if route is not None))
    return [catalog.definition(name) for name in names[:OFFERED]]


def _standing(found: RoutingResult, stage: RoutingStage) -> RoutingResult:
    return found.model_copy(update={"stages": (*found.stages, stage)})


def _overruled(found: RoutingResult, opinion: Opinion) -> RoutingResult:
    """Return what the model says, with what was found before it, which then has not decided."""
    route = opinion.route
    others = tuple(one for one in found.candidates if route is None or one.agent != route.agent)
    stages = tuple(stage.model_copy(update={"decided": False}) for stage in found.stages)
    candidates = (route, *others) if route else others
    return found.model_copy(update={"route": route, "candidates": candidates, "stages": (*stages, opinion.stage)})
