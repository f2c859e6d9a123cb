"""Builds what the dispatcher runs; the only file here that picks implementations."""

import asyncio
import os
from contextlib import suppress
from functools import partial

from ekiden.dispatcher.agent_files import read_agent_files, report
from ekiden.dispatcher.catalog_in_force import CatalogInForce, CurrentCatalogHandler
from ekiden.dispatcher.dispatch import DispatchHandler
from ekiden.dispatcher.following import Following
from ekiden.dispatcher.intake import serve_intake
from ekiden.dispatcher.learning.lookout import look
from ekiden.dispatcher.learning.taught_catalog import TaughtCatalogs
from ekiden.dispatcher.playable import Playable
from ekiden.dispatcher.publishing import publish_own
from ekiden.dispatcher.routing_bootstrap import strategies_of, strategy_in_force
from ekiden.shared.composition import pool_hooks
from ekiden.shared.errors import (
    CatalogNotReady,
    Forged,
    IndexOverwritten,
    NoCatalog,
    NotPermitted,
    UnreadableDefinition,
)
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.job_limits import Budget, Budgets, JobLimits, UserBudget
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.stand_in import has_model
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.recordings import recorded_route
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.request_rails import request_rails_of
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores

__all__ = ["build"]

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
    hooks, not_loaded = ((), ()) if settings.playback else pool_hooks("ekiden-dispatcher", settings)
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
        hooks=HookAsking(hooks),
        job_limits=JobLimits(**settings.job_limits),
        budgets=Budgets(UserBudget(**settings.user_limits), Budget(**settings.session_limits)),
        rails=request_rails_of(settings),
        usage=stores.usage,
        limits=ModelLimits(stores.model_limits, settings.model_limits, os.environ),
        recorded=partial(recorded_route, settings.playback) if settings.playback else lambda _: None,
    )
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
