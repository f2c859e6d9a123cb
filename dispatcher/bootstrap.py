"""Builds what the dispatcher runs; the only file here that picks implementations."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ekiden.dispatcher.agent_files import read_agent_files, report
from ekiden.dispatcher.catalog_in_force import CatalogInForce, CurrentCatalogHandler
from ekiden.dispatcher.dispatch import DispatchHandler
from ekiden.dispatcher.following import Following
from ekiden.dispatcher.intake import serve_intake
from ekiden.dispatcher.learning.lookout import look
from ekiden.dispatcher.learning.taught_catalog import TaughtCatalogs
from ekiden.dispatcher.playable import Playable
from ekiden.dispatcher.publishing import publish_own
from ekiden.dispatcher.routing.llm import ROUTER_AGENT, RouterModel
from ekiden.dispatcher.routing.overrides import no_strategy
from ekiden.dispatcher.routing.strategies import RoutingValues, Strategies, routers
from ekiden.shared.composition import pool_hooks
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.errors import (
    CatalogNotReady,
    ConfigurationError,
    Forged,
    IndexOverwritten,
    NoCatalog,
    NotPermitted,
    UnreadableDefinition,
)
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.models import Models, ModelValues, learn_providers
from ekiden.shared.llm.stand_in import has_model
from ekiden.shared.project_folders import project_of
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings, key_of, origin_of
from ekiden.shared.settings_files import project_file
from ekiden.shared.stores.opening import Stores
from ekiden.shared.trust.grants import stands_by
from ekiden.shared.trust.notices import tell

__all__ = ["build", "load_catalog", "strategies_of", "strategy_in_force"]

MAX_WAIT_S = 5.0
"""How long a job waits in its place for a catalog that is still being learned, before it gives up its worker."""
LOOK_EVERY_S = 5.0
"""How often one of the dispatchers looks what ended jobs teach."""
LOOKED_AT = 200
"""How many of the newest jobs it looks at: where there are more, some teach nothing."""

log = LateLogger(__name__)


async def build(settings: Settings, stores: Stores) -> PoolComponents:
    """Return the handler of leg 0, which follows the catalog in force, and what becomes of our own agent files."""
    files = read_agent_files(settings)
    report(files.problems)
    following = Following(settings, files)
    strategies = strategies_of(settings, MAX_WAIT_S)
    in_force = CatalogInForce(stores.catalogs, MAX_WAIT_S)
    playable = Playable(stores.pools.pools, 0.0 if has_model(os.environ) else MAX_WAIT_S)
    taught = TaughtCatalogs(stores.lessons, settings.routing_learn, strategies.prepare)
    handler_for = partial(
        DispatchHandler,
        router=strategies[strategy_in_force(settings, strategies)],
        fallback=settings.routing_fallback,
        sessions=stores.sessions,
        strategies=strategies,
        default_agent=settings.routing_default_agent,
        enabled=settings.routing_enabled,
        playable=playable,
        taught=taught,
    )
    hooks, not_loaded = pool_hooks("ekiden-dispatcher", settings)
    legs = asyncio.get_running_loop()

    async def begin() -> None:
        await publish_own(stores.catalogs, files.catalog, is_wanted=settings.publish)
        await _learn(settings, stores, 0.0)  # what went before may have been the user's correction

    async def follow(beside: Stores) -> None:
        if await beside.catalogs.current() is None:  # a server that has lost its data
            await publish_own(beside.catalogs, following.files.catalog, is_wanted=False)
        if settings.publish:
            await following(beside.catalogs)
        await _learn(settings, beside, LOOK_EVERY_S)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(prepare(), legs))

    async def prepare() -> None:
        with suppress(NoCatalog, CatalogNotReady, Forged, UnreadableDefinition):  # the legs say so
            catalog = await in_force()
            await strategies.prepare(await taught(catalog))
            await taught.follow(catalog)

    async def serve(beside: Stores) -> None:
        await serve_intake(beside, settings.wait_replicas)

    return PoolComponents(
        CurrentCatalogHandler(in_force, handler_for),
        strategies=tuple(strategies),
        problems=(*strategies.problems, *not_loaded),
        hooks=hooks,
        begin=begin,
        follow=follow,
        serve=serve,
    )


async def _learn(settings: Settings, at: Stores, every_s: float) -> None:
    """Look for lessons in the newest jobs, if that is wanted and no dispatcher has looked within ``every_s``."""
    if settings.routing_learn != "on":
        return
    try:
        if not every_s or await at.lessons.may_look(every_s):
            await look(at, LOOKED_AT)
    except (NotPermitted, IndexOverwritten) as error:  # no request is to wait for that
        log.warning("nothing_learned", error=str(error))


def load_catalog(settings: Settings) -> Catalog:
    """Load every agent file in force, as far as it is trusted.

    Problems are logged with file and line, and hide no other agent.
    """
    files = read_agent_files(settings)
    report(files.problems)
    return files.catalog


def strategies_of(settings: Settings, max_wait_s: float | None = None) -> Strategies:
    """Return the routing strategies as the settings have them; see ``RoutingValues`` for ``max_wait_s``.

    Their ``problems`` are also those of the providers that models of plug-ins come from.
    """
    values = RoutingValues(
        rule_threshold=settings.routing_rule_threshold,
        semantic_threshold=settings.routing_semantic_threshold,
        top_k=settings.routing_semantic_top_k,
        model_for=_router_model(settings),
        asks_model=settings.routing_llm_model is not None,
        max_wait_s=max_wait_s,
    )
    strategies = routers(values)
    strategies.problems += learn_providers(settings)
    strategies.add(settings.allowed("routers"))
    return strategies


def strategy_in_force(settings: Settings, strategies: Strategies) -> str:
    """Return the name of the strategy that the settings choose.

    Raises:
        ConfigurationError: there is no such router; unless a folder says so that nobody trusts, which stops nobody.
    """
    name = settings.routing_strategy
    if name in strategies:
        return name
    field, project = "routing_strategy", project_of(Path.cwd())
    if (where := origin_of(field)) != str(project_file()) or stands_by(project):
        raise ConfigurationError(f"setting {key_of(field)!r} ({where}): {no_strategy(name, strategies)}")
    tell(project, f"ignored settings {key_of(field)}, whose values are wrong")
    return str(Settings.model_fields[field].default)


def _router_model(settings: Settings) -> Callable[[Catalog], RouterModel]:
    """Return what finds the model that routes: the settings', else the router agent's, else the default."""
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    models = Models(replace(values, attempts=1), os.environ)  # a later try would come after the router's timeout

    def model_for(catalog: Catalog) -> RouterModel:
        definition = catalog.agents.get(ROUTER_AGENT)
        choice = models.choose(settings.routing_llm_model or (definition.model if definition else None))
        return RouterModel(models.model(choice), choice.name, settings.routing_llm_timeout / 1000)

    return model_for
