"""The strategies by name, as the settings have them: our routers, and those of plug-ins.

Ours share what they have learned of a catalog. There is no other list of strategies.
"""

import asyncio
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import Router
from ekiden.dispatcher.routing.followup import FollowUpRouter
from ekiden.dispatcher.routing.hybrid import RULE_THRESHOLD, HybridRouter
from ekiden.dispatcher.routing.llm import LLM, ModelRouter, RouterModel
from ekiden.dispatcher.routing.overrides import AUTO
from ekiden.dispatcher.routing.plugin_routers import ForeignRouter
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.dispatcher.routing.second_opinion import SecondOpinion
from ekiden.dispatcher.routing.semantic import SemanticRouter
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.embedding.encoder import Encoder
from ekiden.shared.plugins import load
from ekiden.shared.settings.plugins import Allowed

__all__ = ["RoutingValues", "Strategies", "routers"]


@dataclass(frozen=True)
class RoutingValues:
    """What of the settings concerns the strategies."""

    rule_threshold: float = RULE_THRESHOLD
    semantic_threshold: float | None = None
    top_k: int = 20
    model_for: Callable[[Catalog], RouterModel] | None = None
    """Who is asked with the strategy ``llm``, and where ``hybrid`` is not sure; None: nobody, there is no ``llm``."""
    max_wait_s: float | None = None
    """How long a request waits for a catalog that is still being learned; None: as long as it takes."""


class Strategies(UserDict[str, Router]):
    """The routers by the name of their strategy."""

    def __init__(
        self, known: dict[str, Router], rule: RuleRouter, semantic: SemanticRouter, model: ModelRouter | None
    ) -> None:
        super().__init__(known)
        self.model = model
        """Who is asked what is left open; None: nobody."""
        self.problems: tuple[str, ...] = ()
        """Which routers and models of plug-ins the settings ask for that are not to be had, and why."""
        self._rule = rule
        self._semantic = semantic

    def add(self, allowed: Allowed) -> None:
        """Take in the routers of plug-ins that the settings allow; what is wrong with one is a problem."""
        kind: type[Router] = Router  # type: ignore[type-abstract]  # checked while running
        loaded = load("routers", allowed, kind, own=(*self, AUTO))
        self.update({name: ForeignRouter(name, router) for name, router in loaded.made.items()})
        self.problems += loaded.problems

    async def prepare(self, catalog: Catalog) -> None:
        """Learn ``catalog`` in the background; returns when that is done, or raises ``CatalogNotReady``."""
        await asyncio.gather(self._rule.prepare(catalog), self._semantic.prepare(catalog))


def routers(values: RoutingValues, encoder: Encoder | None = None) -> Strategies:
    """Return a router for each strategy; ``llm`` only where there is a model, which is told the conversation itself."""
    rule = RuleRouter(values.max_wait_s)
    semantic = SemanticRouter(encoder, values.semantic_threshold, values.max_wait_s)
    model = ModelRouter(values.model_for, semantic, values.top_k) if values.model_for else None
    hybrid = FollowUpRouter(HybridRouter(rule, semantic, values.rule_threshold))
    known: dict[str, Router] = {
        "rule": FollowUpRouter(rule),
        "semantic": FollowUpRouter(semantic),
        "hybrid": SecondOpinion(hybrid, model) if model else hybrid,
    }
    return Strategies({**known, LLM: model} if model else known, rule, semantic, model)
