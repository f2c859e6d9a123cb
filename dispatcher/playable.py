"""Which agents of a catalog somebody can play: without a model, those that a worker's stand-in has a script for."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ekiden.dispatcher.routing.base import RoutingResult, routable
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.llm.stand_in import played_by
from ekiden.shared.records import RoutingStage
from ekiden.shared.stores.views import PoolView

__all__ = ["PLAYED", "Playable", "as_it_is", "playable_of", "played", "why_not_all"]

LOOK_S = 2.0
"""How long a look at the pools counts."""
PLAYED = "played"
"""The stage of the routing that looks who can be played."""
_FAR = 5
"""How many times surer the best agent may be than one that takes its place."""
_STEP_S = 0.1
_SHOWN = 5


@dataclass(eq=False)
class Playable:
    """Leaves the others out of catalogs. One event loop only."""

    pools: Callable[[], Awaitable[Sequence[PoolView]]]
    wait_s: float = 5.0
    """How long the first request waits for a worker to announce itself: they are started together. 0: not at all."""
    _looked_at: float = float("-inf")
    _plays: frozenset[str] | None = None

    async def __call__(self, catalog: Catalog) -> Catalog:
        """Return ``catalog`` with those whom requests may go to."""
        if time.monotonic() - self._looked_at > LOOK_S:
            self._plays = played_by(pool.extra for pool in await self._workers())
            self._looked_at = time.monotonic()
        return playable_of(catalog, self._plays)

    async def _workers(self) -> list[PoolView]:
        until, self.wait_s = time.monotonic() + self.wait_s, 0.0
        while not (found := [pool for pool in await self.pools() if pool.kind == "worker"]):
            if time.monotonic() >= until:
                break
            await asyncio.sleep(_STEP_S)
        return found


async def as_it_is(catalog: Catalog) -> Catalog:
    """Leave nobody out, and add nothing."""
    return catalog


def playable_of(catalog: Catalog, names: frozenset[str] | None) -> Catalog:
    """Return ``catalog`` without those whom requests would go to and whose names are not there; None: all are."""
    if names is None:
        return catalog
    lost = {agent.name for agent in routable(catalog) if not _is_played(agent, catalog, names)}
    if not lost:
        return catalog
    left = [name for name in catalog.names if name not in lost]
    return Catalog({name: catalog.agents[name] for name in left}, {name: catalog.digests[name] for name in left})


def _is_played(agent: AgentDefinition, catalog: Catalog, names: frozenset[str]) -> bool:
    """Tell whether somebody plays an agent; of a graph, all that it runs."""
    if agent.graph is None:
        return agent.name in names
    runs = {node.runner for node in agent.graph.nodes if node.runner}
    return all(name in catalog and _is_played(catalog.agents[name], catalog, names) for name in runs)


def played(result: RoutingResult, playable: Catalog) -> RoutingResult:
    """Return ``result`` with the likeliest agent of ``playable``; with none where only others are likely enough."""
    if (best := result.route) is None or best.agent in playable:
        return result
    likely = [one for one in result.candidates if one.confidence * _FAR >= best.confidence]
    route = next((one for one in likely if one.agent in playable), None)
    note = f"{best.agent!r} would take the request, and nobody can play it without a model"
    stage = RoutingStage(stage=PLAYED, agent=route and route.agent, decided=route is not None, note=note)
    return result.model_copy(update={"route": route, "stages": (*result.stages, stage)})


def why_not_all(catalog: Catalog, playable: Catalog) -> str:
    """Say who of ``catalog`` cannot be played, and what would change that; empty: all can."""
    lost = [agent.name for agent in routable(catalog) if agent.name not in playable]
    if not lost:
        return ""
    played = _listed([agent.name for agent in routable(playable)])
    can = f"only {played} can be played, by a scripted stand-in" if played else "nobody can be played"
    gains = "a key (`ekiden models` names it), or a script of theirs (`ekiden.scripts_dir`: docs/scripts.md)"
    return f"Without a model {can}: {gains}, adds {_listed(lost)}"


def _listed(names: Sequence[str]) -> str:
    """Name some of them: ``a, b and c``."""
    shown = list(names) if len(names) <= _SHOWN + 1 else [*names[:_SHOWN], f"{len(names) - _SHOWN} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
