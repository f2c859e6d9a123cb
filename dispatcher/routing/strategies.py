"""The strategies by name, as the settings have them; they share what they have learned of a catalog."""

import asyncio
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import Router
from ekiden.dispatcher.routing.encoder import Encoder
from ekiden.dispatcher.routing.followup import FollowUpRouter
from ekiden.dispatcher.routing.hybrid import RULE_THRESHOLD, HybridRouter
from ekiden.dispatcher.routing.llm import ModelRouter, RouterModel
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.dispatcher.routing.semantic import SemanticRouter
from ekiden.shared.definitions.catalog import Catalog

__all__ = ["RoutingValues", "Strategies", "routers"]


@dataclass(frozen=True)
class RoutingValues:
    """What of the settings concerns the strategies."""

    rule_threshold: float = RULE_THRESHOLD
    semantic_threshold: float | None = None
    top_k: int = 20
    model_for: Callable[[Catalog], RouterModel] | None = None
    """Who is asked with the strategy ``llm``; None: there is no such strategy."""
    asks_model: bool = False
    """Whether the strategy ``hybrid`` asks it too."""
    max_wait_s: float | None = None
    """How long a request waits for a catalog that is still being learned; None: as long as it takes."""


class Strategies(UserDict[str, Router]):
    """The routers by the name of their strategy."""

    def __init__(self, known: dict[str, Router], rule: RuleRouter, semantic: SemanticRouter) -> None:
        super().__init__(known)
        self._rule = rule
        self._semantic = semantic

    async def prepare(self, catalog: Catalog) -> None:
        """Learn ``catalog`` in the background; returns when that is done, or raises ``CatalogNotReady``."""
        await asyncio.gather(self._rule.prepare(catalog), self._semantic.prepare(catalog))


def routers(values: RoutingValues, encoder: Encoder | None = None) -> Strategies:
    """Return a router for each strategy; ``llm`` only where there is a model, which is told the conversation itself."""
    rule = RuleRouter(values.max_wait_s)
    semantic = SemanticRouter(encoder, values.semantic_threshold, values.max_wait_s)
    model = ModelRouter(values.model_for, semantic, values.top_k) if values.model_for else None
    hybrid = HybridRouter(rule, semantic, model if values.asks_model else None, values.rule_threshold)
    known: dict[str, Router] = {
        "rule": FollowUpRouter(rule),
        "semantic": FollowUpRouter(semantic),
        "hybrid": hybrid if hybrid.model else FollowUpRouter(hybrid),
    }
    return Strategies({**known, "llm": model} if model else known, rule, semantic)
