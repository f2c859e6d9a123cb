"""Builds what a worker runs; the only file here that picks implementations."""

import os
from dataclasses import replace

from ekiden.shared.composition import pool_hooks
from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.models import Models, ModelValues, learn_providers
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.relay.message import queue_for
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.tool_processes import prepare
from ekiden.workers.completion import CONTROLS
from ekiden.workers.leg import AgentHandler, Definitions
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.registry import BUILTIN, builtin_registry, plugin_tools
from ekiden.workers.tools.tool_runner import ToolRunner

__all__ = ["build"]


async def build(settings: Settings, stores: Stores) -> PoolComponents:
    """Return the handler of agent legs with its tools and models."""
    if settings.workspace_root is not None:
        prepare()  # the first command is not to wait for it
    has_workspace = settings.workspace_root is not None
    registry = builtin_registry(has_workspace)
    brought, problems = plugin_tools(settings.allowed("tools"), (*(one.name for one in BUILTIN), *CONTROLS))
    for tool in brought:
        if has_workspace or not tool.needs_workspace:
            registry.add(tool)
    hooks, not_loaded = pool_hooks("ekiden-worker", settings)
    problems += (*learn_providers(settings), *not_loaded)
    is_telling_apart = settings.signing_key is not None or bool(await stores.user())
    policy = replace(operators_policy(settings), tells_people_apart=is_telling_apart)
    problems += policy.problems
    handler = AgentHandler(
        Definitions(stores.catalogs),
        registry,
        ToolRunner(registry, settings.tool_threads),
        Models(ModelValues.of(settings, shipped_agents_dir() / "_scripts"), os.environ),
        Prices(settings.prices),
        workspace_root=settings.workspace_root,
        after_untrusted=settings.tools_after_untrusted,
        env=for_tools(os.environ, settings.tools_env),
        policy=policy,
        knows_people=bool(stores.signing) or bool(await stores.user()),
        protected=Protected(settings.tools_read_only, settings.tools_writable),
        tools_elsewhere=lambda agent: stores.pools.tools_on(queue_for(agent)),
    )
    return PoolComponents(handler, registry.views(), problems=problems, hooks=hooks)
