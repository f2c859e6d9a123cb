"""Builds what a worker runs; the only file here that picks implementations."""

import os

from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.models import Models, ModelValues
from ekiden.shared.prices import Prices
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.tool_processes import prepare
from ekiden.workers.leg import AgentHandler, Definitions
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.registry import builtin_registry
from ekiden.workers.tools.tool_runner import ToolRunner

__all__ = ["build"]


async def build(settings: Settings, stores: Stores) -> PoolComponents:
    """Return the handler of agent legs with its tools and models."""
    if settings.workspace_root is not None:
        prepare()  # the first command is not to wait for it
    registry = builtin_registry(workspace=settings.workspace_root is not None)
    handler = AgentHandler(
        Definitions(stores.catalogs),
        registry,
        ToolRunner(registry, settings.tool_threads),
        Models(ModelValues.of(settings, shipped_agents_dir() / "_scripts"), os.environ),
        Prices(settings.prices),
        workspace_root=settings.workspace_root,
        after_untrusted=settings.tools_after_untrusted,
        env=for_tools(os.environ, settings.tools_env),
        protected=Protected(settings.tools_read_only, settings.tools_writable),
    )
    return PoolComponents(handler, registry.names())
