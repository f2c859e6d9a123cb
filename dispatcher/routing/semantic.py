"""Routing by meaning: what the request is about, held against the agents' descriptions and examples.

Needs no key. A request that is nobody's is refused, at a threshold that each catalog's own examples set.
"""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from ekiden.dispatcher.routing.agent_texts import AgentVectors, encoded
from ekiden.dispatcher.routing.base import NO_CONTEXT, SHOWN, RequestContext, Route, RoutingResult, routable
from ekiden.dispatcher.routing.calibration import CALIBRATED
from ekiden.dispatcher.routing.catalog_cache import CatalogCache
from ekiden.dispatcher.routing.kept_model import kept_model
from ekiden.dispatcher.routing.semantic_model import KINDS, Judgement, SemanticModel, learn
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Encoder, SentenceEncoder
from ekiden.shared.records import RoutingStage

__all__ = ["SemanticRouter", "judged"]


class SemanticRouter:
    """Learns a catalog when it first sees it, in the background; each definition's vectors are made once."""

    def __init__(
        self, encoder: Encoder | None = None, threshold: float | None = None, max_wait_s: float | None = None
    ) -> None:
        """Make a router.

        Args:
            encoder: Turns texts into vectors; None: the one that ships with Ekiden.
            threshold: 0 to 100, instead of the calibrated 50.
            max_wait_s: How long a request waits for a catalog that is still being learned; None: as long as it takes.
        """
        self._encoder = encoder or SentenceEncoder()
        self._threshold = CALIBRATED if threshold is None else threshold
        self._vectors: dict[tuple[str, int], AgentVectors] = {}
        self._learned: CatalogCache[SemanticModel] = CatalogCache(max_wait_s)
        self._learning = asyncio.Lock()  # one catalog after the other: they share the vectors

    async def route(self, prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
        """Choose the agent whose texts the request is most like, if it is like any."""
        began = time.perf_counter()
        if not routable(catalog):
            return RoutingResult()
        meaning = await self.learned(catalog)
        judgement = await asyncio.to_thread(meaning.judge, prompt, self._encoder)
        return self._result(meaning, judgement, (time.perf_counter() - began) * 1000)

    async def learned(self, catalog: Catalog) -> SemanticModel:
        """Return what is known of ``catalog``, learning it first if it is new. The event loop goes on meanwhile."""
        return await self._learned.get(catalog.digest, lambda: self._learn_alone(routable(catalog)))

    async def prepare(self, catalog: Catalog) -> None:
        """Learn ``catalog`` before a request needs it, if any request ever needed one: the encoder takes its time."""
        if self._learned.is_in_use and routable(catalog):
            await self.learned(catalog)

    async def _learn_alone(self, agents: Sequence[AgentDefinition]) -> SemanticModel:
        async with self._learning:
            return await asyncio.to_thread(self._learn, agents)

    def _learn(self, agents: Sequence[AgentDefinition]) -> SemanticModel:
        if isinstance(self._encoder, SentenceEncoder):
            return kept_model("learned", agents, self._encoder.name, KINDS, lambda: self._learn_anew(agents))
        return self._learn_anew(agents)

    def _learn_anew(self, agents: Sequence[AgentDefinition]) -> SemanticModel:
        self._vectors = encoded(agents, self._encoder, self._vectors)
        return learn(agents, self._encoder, list(self._vectors.values()))

    def _result(self, meaning: SemanticModel, judgement: Judgement, duration_ms: float) -> RoutingResult:
        return judged(tuple(_routes(meaning, judgement)), judgement.share, self._threshold, duration_ms)


def judged(candidates: tuple[Route, ...], share: float, threshold: float, duration_ms: float) -> RoutingResult:
    """Return the choice of the first of ``candidates``, if the request is anybody's as surely as ``threshold`` has it.

    Args:
        candidates: At least one, best first.
        share: 0 to 100: how surely the request is anybody's.
        threshold: The same that is needed.
        duration_ms: How long it took to judge.
    """
    best = candidates[0]
    is_ours = share >= threshold
    others = "".join(f"; then {route.agent}" for route in candidates[1:2])
    stage = RoutingStage(
        stage="semantic",
        agent=best.agent,
        score=best.score,
        confidence=round(share, 1),
        threshold=threshold,
        decided=is_ours,
        note=f"looks like {best.agent}{others}" if is_ours else "looks like no agent's work",
        duration_ms=round(duration_ms, 2),
    )
    return RoutingResult(route=best if is_ours else None, candidates=candidates, stages=(stage,), belonging=share)


def _routes(meaning: SemanticModel, judgement: Judgement) -> list[Route]:
    best, *others = judgement.order[:SHOWN]
    scores = judgement.scores
    rest = max(100 - judgement.confidence, 0.0)
    weights = np.exp(5 * (scores[others] - scores[best]))
    shares = rest * weights / (weights.sum() + 1)  # what is left for the others, by how near they come
    confidences = [judgement.confidence, *np.minimum(shares, judgement.confidence)]
    return [
        Route(
            agent=meaning.names[number],
            stage="semantic",
            score=round(judgement.share, 2),
            confidence=round(float(confidence), 1),
        )
        for number, confidence in zip((best, *others), confidences, strict=True)
    ]
