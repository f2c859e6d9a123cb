"""Builds what a worker runs; the only file here that picks implementations."""

import os
from pathlib import Path

from ekiden.shared.composition import pool_hooks
from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.models import Models, ModelValues, learn_providers
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.prices import Prices
from ekiden.shared.project_folders import project_of
from ekiden.shared.relay.message import queue_for
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.tool_processes import prepare
from ekiden.workers.completion import CONTROLS
from ekiden.workers.leg import AgentHandler, Definitions
from ekiden.workers.mcp.agents import AgentServers
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.toolbox import McpTools
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
    tool_runner = ToolRunner(registry, settings.tool_threads, timeout_s=settings.tools_timeout_s)
    configured = configured_servers(settings.project or project_of(Path.cwd()))
    problems += configured.problems
    env = for_tools(os.environ, settings.tools_env)
    hub = Hub(os.environ, env)
    hub.start(configured.servers)
    handler = AgentHandler(
        Definitions(stores.catalogs),
        registry,
        tool_runner,
        Models(ModelValues.of(settings, shipped_agents_dir() / "_scripts"), os.environ),
        Prices(settings.prices),
        workspace_root=settings.workspace_root,
        after_untrusted=settings.tools_after_untrusted,
        env=env,
        protected=Protected(settings.tools_read_only, settings.tools_writable),
        servers=AgentServers(McpTools(hub, stores.listings), configured.servers),
        tools_elsewhere=lambda agent: stores.pools.tools_on(queue_for(agent)),
        artifacts=stores.artifacts,
    )

    def told() -> dict[str, str]:
        return {"stuck_tools": str(tool_runner.stuck)}

    def servers() -> dict[str, str]:
        return {**dict.fromkeys(configured.servers, ""), **hub.health()}

    return PoolComponents(
        handler, registry.views(), servers=servers, problems=problems, hooks=hooks, told=told, close=hub.close
    )
