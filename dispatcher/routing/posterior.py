"""Meaning and rules as one judgement: by Bayes' rule, what the rules found changes the odds of what a request means.

What a term says counts for more than in a choice by rules alone, where nothing else would notice a wrong one.
"""

import math
from collections.abc import Collection, Mapping

from ekiden.dispatcher.routing.base import OUT, SHOWN, Route, RoutingResult
from ekiden.dispatcher.routing.semantic import judged

__all__ = ["posterior"]

_WEIGHT = 2.2
"""Of the rules' evidence: a keyword of one agent only multiplies its odds by eleven."""
_OF_BROAD = math.log(1.5)
"""The most that terms count which are words of other work, too, against an agent that the request means."""
_UNNAMED = 0.001
"""Of 100: what an agent has by meaning that is not among the nearest."""


def posterior(by_rule: RoutingResult, by_meaning: RoutingResult, broad: Collection[str] = ()) -> RoutingResult:
    """Return the judgement by meaning as it is with what the rules found; the same where they found nothing.

    What they found against an agent is left to the meaning, unless it is to be ``OUT``. What they found for those whose
    terms are ``broad`` counts less than one keyword does, where the meaning is that the request is somebody else's.
    """
    if not by_rule.evidence or not by_meaning.candidates:
        return by_meaning
    limited = broad if by_meaning.route is not None and by_meaning.route.agent not in broad else ()
    evidence = {agent: min(one, _OF_BROAD) if agent in limited else one for agent, one in by_rule.evidence.items()}
    shares = _shares(evidence, by_meaning)
    nobody = 100 - by_meaning.belonging
    whole = sum(shares.values()) + nobody
    share = 100 * (1 - nobody / whole) if whole else 0.0
    terms = {route.agent: route for route in by_rule.candidates}
    best = sorted(shares, key=shares.__getitem__, reverse=True)[:SHOWN]
    candidates = tuple(_route(agent, share, 100 * shares[agent] / whole, terms.get(agent)) for agent in best)
    stage = by_meaning.stages[-1]
    return judged(candidates, share, stage.threshold or 0.0, stage.duration_ms)


def _shares(evidence: Mapping[str, float], by_meaning: RoutingResult) -> dict[str, float]:
    """Return the odds of each agent, against the share of 100 that the request is nobody's."""
    sure = {route.agent: max(route.confidence, _UNNAMED) for route in by_meaning.candidates}
    sure = {
        agent: one for agent, one in (dict.fromkeys(evidence, _UNNAMED) | sure).items() if evidence.get(agent) != OUT
    }
    scale = by_meaning.belonging / sum(sure.values())
    return {agent: scale * one * math.exp(_WEIGHT * max(evidence.get(agent, 0.0), 0.0)) for agent, one in sure.items()}


def _route(agent: str, share: float, confidence: float, by_rule: Route | None) -> Route:
    return Route(
        agent=agent,
        stage="semantic",
        score=round(share, 2),
        confidence=round(confidence, 1),
        matched_keywords=by_rule.matched_keywords if by_rule else (),
        matched_patterns=by_rule.matched_patterns if by_rule else (),
    )
