"""Builds what a worker runs; the only file here that picks implementations."""

import os
from dataclasses import replace
from pathlib import Path

from ekiden.shared.composition import pool_hooks
from ekiden.shared.definitions.loader import shipped_agents_dir
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.models import Models, ModelValues, learn_providers
from ekiden.shared.llm.stand_in import announcement
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import allowed_tool_files
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.tool_processes import prepare
from ekiden.workers.completion import CONTROLS
from ekiden.workers.leg import AgentHandler, Definitions
from ekiden.workers.mcp.agents import AgentServers
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.toolbox import McpTools
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.keeping import READER
from ekiden.workers.tools.project_tools import project_tools
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.registry import BUILTIN, Registry, builtin_registry, plugin_tools
from ekiden.workers.tools.tool_runner import ToolRunner

__all__ = ["build"]


async def build(settings: Settings, stores: Stores) -> PoolComponents:
    """Return the handler of agent legs with its tools and models."""
    has_workspace = settings.workspace_root is not None
    env = for_tools(os.environ, settings.tools_env)
    sandbox = OFF
    if has_workspace:
        prepare()  # the first command is not to wait for it
        sandbox = await choose(settings, env)
    registry, problems = _tools(settings, sandbox)
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    hooks, not_loaded = pool_hooks("ekiden-worker", settings)
    problems += (*learn_providers(settings), *not_loaded)
    stand_in = announcement(values, os.environ)
    tool_runner = ToolRunner(registry, settings.tool_threads, timeout_s=settings.tools_timeout_s)
    knows_people = bool(stores.signing) or bool(await stores.user())
    policy = replace(operators_policy(settings), tells_people_apart=knows_people)
    configured = configured_servers(settings.project or project_of(Path.cwd()))
    problems += (*policy.problems, *configured.problems)
    protected = Protected(settings.tools_read_only, settings.tools_writable)

    async def of_servers() -> Sandbox:
        return sandbox if has_workspace else await choose(settings, env)

    hub = Hub(os.environ, Starter(env, of_servers, protected))
    hub.start(configured.servers)
    handler = AgentHandler(
        Definitions(stores.catalogs),
        registry,
        tool_runner,
        Models(values, os.environ),
        Prices(settings.prices),
        workspace_root=settings.workspace_root,
        after_untrusted=settings.tools_after_untrusted,
        env=env,
        policy=policy,
        sandbox=sandbox,
        knows_people=knows_people,
        protected=protected,
        servers=AgentServers(McpTools(hub, stores.listings), configured.servers),
        pools=stores.pools.pools,
        artifacts=stores.artifacts,
        private_hosts=settings.tools_web_fetch_allow_private,
        loops_off=[kind for kind, is_on in settings.loops.items() if not is_on],
    )

    def told() -> dict[str, str]:
        return {"stuck_tools": str(tool_runner.stuck), **stand_in}

    def servers() -> dict[str, str]:
        return {**dict.fromkeys(configured.servers, ""), **hub.health()}

    return PoolComponents(
        handler,
        registry.views(),
        servers=servers,
        sandbox=sandbox.told if has_workspace else "",
        problems=problems,
        hooks=hooks,
        told=told,
        close=hub.close,
    )


def _tools(settings: Settings, sandbox: Sandbox) -> tuple[Registry, tuple[str, ...]]:
    """Return what agents may call here, built in and brought, and what is wrong with it."""
    has_workspace = settings.workspace_root is not None
    registry = builtin_registry(has_workspace)
    of_project, problems = project_tools(allowed_tool_files(project_of(Path.cwd())))  # of no folder that jobs name
    taken = (*(one.name for one in BUILTIN), READER, *CONTROLS)
    brought, not_brought = plugin_tools(settings.allowed("tools"), taken, of_project)
    for tool in brought:
        if has_workspace or not tool.needs_workspace:
            registry.add(tool)
    return registry, (*problems, *not_brought, *_without_commands(registry, settings, sandbox))


def _without_commands(registry: Registry, settings: Settings, sandbox: Sandbox) -> tuple[str, ...]:
    """Take away what starts commands where nothing confines them and the settings require that; say so."""
    commands = [tool.name for tool in registry if tool.starts_commands]
    if settings.tools_sandbox != "required" or sandbox.holds or not commands:
        return ()
    for name in commands:
        registry.remove(name)
    lost, why = ", ".join(commands), sandbox.why or "no filter of system calls"
    return (f"setting 'tools.sandbox' is 'required', and nothing confines commands here ({why}): no {lost}",)
