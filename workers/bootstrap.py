"""Builds what a worker runs; the only file here that picks implementations."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ekiden.shared.composition import pool_hooks
from ekiden.shared.embedding.embedders import Embedders
from ekiden.shared.environments import for_tools
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.llm.circuits import CircuitRules, Circuits
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelValues, learn_providers
from ekiden.shared.llm.stand_in import announcement
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.memory.backends import Backends
from ekiden.shared.memory.recollections import Recollections
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.model_limits import unknown_in
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.processes.tools import prepare
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import allowed_tool_files
from ekiden.shared.relay.leg import Handler
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.request_rails import request_rails_of
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers.completion import CONTROLS
from ekiden.workers.compression import CompressionRules
from ekiden.workers.definitions import Definitions
from ekiden.workers.graphs.handler import GraphHandler
from ekiden.workers.leg import AgentHandler, Means
from ekiden.workers.mcp.agents import AgentServers
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.toolbox import McpTools
from ekiden.workers.memory import Remembering
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.own_tools import OwnTools
from ekiden.workers.playback.hooks import RecordedHooks
from ekiden.workers.playback.models import RecordedCallers
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.playback.servers import RecordedServers
from ekiden.workers.playback.tools import RecordedToolRunner, remembering
from ekiden.workers.processors import loaded_processors
from ekiden.workers.rail_judge import JudgeRules
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.keeping import READER
from ekiden.workers.tools.project_tools import project_tools
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.registry import BUILTIN, Registry, builtin_registry, plugin_tools
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.validators import loaded_validators

__all__ = ["build"]


async def build(settings: Settings, stores: Stores) -> PoolComponents:
    """Return the handler of agent legs with its tools and models."""
    if settings.playback is not None:
        return await _playing(settings, stores, Recordings(settings.playback))
    root = settings.workspace_root.resolve() if settings.workspace_root else None
    env = for_tools(os.environ, settings.tools_env)
    sandbox = await _sandbox(settings, env)
    protected = Protected(settings.tools_read_only, settings.tools_writable)
    environment = ToolEnvironment(
        root, env, protected, sandbox, stores.artifacts, frozenset(settings.tools_web_fetch_allow_private)
    )
    registry, problems = _tools(settings, sandbox)
    tool_runner = ToolRunner(registry, settings.tool_threads, timeout_s=settings.tools_timeout_s)
    hooks, not_loaded = pool_hooks("ekiden-worker", settings)
    problems += (*learn_providers(settings), *not_loaded, *unknown_in(settings.model_limits))
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    circuits = Circuits(stores.circuits, CircuitRules(settings.model_circuit_failures, settings.model_circuit_s))
    configured = configured_servers(settings.project or project_of(Path.cwd()))
    hub = _hub(settings, environment)
    hub.start(configured.servers)
    servers = AgentServers(McpTools(hub, stores.listings), configured.servers)
    embedders = Embedders(settings, os.environ)
    kept = Backends(stores.memories, settings.notes_folder, stores.signing)
    memories = Recollections(kept, embedders.of)
    means = Means(
        OwnTools(registry, root=root, servers=servers, keep=stores.listings.keep, pools=stores.pools.pools),
        tool_runner,
        _model_callers(settings, stores, Models(values, os.environ, circuits)),
        environment,
        HookAsking(hooks),
        Remembering(memories.of, stores.sessions).of,
        bool(stores.signing) or bool(await stores.user()),
    )
    handler, not_in_force = _handler(settings, stores, means)
    stand_in = announcement(values, os.environ)
    return PoolComponents(
        handler,
        registry.views(),
        servers=lambda: {**dict.fromkeys(configured.servers, ""), **hub.health()},
        sandbox=sandbox.told if root else "",
        problems=(*problems, *configured.problems, *not_in_force),
        hooks=hooks,
        follow=_follow(circuits, has_limits=bool(settings.model_limits)),
        told=lambda: {"stuck_tools": str(tool_runner.stuck), **stand_in},
        close=lambda: _close(memories, embedders, hub),
    )


async def _playing(settings: Settings, stores: Stores, recordings: Recordings) -> PoolComponents:
    """Return a handler that decides as ever, and takes from recordings what came from outside.

    What models, tools and memories gave, what hooks said, what MCP servers offered. Whoever plays answers for persons,
    who can be told apart where they could be then.
    """
    root = settings.workspace_root.resolve() if settings.workspace_root else None
    env = for_tools(os.environ, settings.tools_env)
    sandbox = await _sandbox(settings, env)
    registry, problems = _tools(settings, sandbox)
    providers = learn_providers(settings)
    means = Means(
        OwnTools(
            registry,
            root=root,
            servers=RecordedServers(recordings),
            keep=stores.listings.keep,
            pools=stores.pools.pools,
        ),
        RecordedToolRunner(recordings, registry),
        RecordedCallers(Models(ModelValues(), {}), Prices(settings.prices), recordings=recordings),
        ToolEnvironment(root, env, sandbox=sandbox, artifacts=stores.artifacts),
        RecordedHooks(recordings),
        remembering(recordings),
        bool(stores.signing) or recordings.know_people(),
    )
    handler, not_in_force = _handler(settings, stores, means)
    problems += (*providers, *not_in_force)
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    plays = announcement(values, {}) if recordings.are_scripted() else {}  # requests went to those who can be played
    told = sandbox.told if root else ""
    return PoolComponents(handler, registry.views(), sandbox=told, problems=problems, told=lambda: plays)


def _handler(settings: Settings, stores: Stores, means: Means) -> tuple[Handler, tuple[str, ...]]:
    """Return what decides by the settings, whatever it works with, and what of them is not in force."""
    policy = replace(operators_policy(settings), tells_people_apart=means.knows_people)
    processors, not_processing = loaded_processors(settings.allowed("outputs"))
    validators, not_validating = loaded_validators(settings.allowed("guardrails"))
    definitions = Definitions(stores.catalogs)
    agents = AgentHandler(
        definitions,
        means,
        policy=policy,
        after_untrusted=settings.tools_after_untrusted,
        loops_off=[kind for kind, is_on in settings.loops.items() if not is_on],
        compression=CompressionRules(
            settings.compression_threshold, settings.compression_keep, settings.compression_model
        ),
        processors=processors,
        validators=validators,
        judging=JudgeRules(settings.guardrails_model, settings.guardrails_threshold),
    )
    rails = request_rails_of(settings)
    return GraphHandler(definitions, agents, rails), (*policy.problems, *not_processing, *not_validating)


def _hub(settings: Settings, environment: ToolEnvironment) -> Hub:
    """Return what keeps the MCP servers; their programs are confined also where no command runs."""

    async def sandbox() -> Sandbox:
        return environment.sandbox if environment.root else await choose(settings, environment.env)

    return Hub(os.environ, Starter(environment.env, sandbox, environment.protected))


def _model_callers(settings: Settings, stores: Stores, models: Models) -> ModelCallers:
    limits = ModelLimits(stores.model_limits, settings.model_limits, os.environ)
    return ModelCallers(models, Prices(settings.prices), limits)


def _close(memories: Recollections, embedders: Embedders, hub: Hub) -> None:
    memories.close()
    embedders.close()
    hub.close()


async def _sandbox(settings: Settings, env: Mapping[str, str]) -> Sandbox:
    """Return what confines commands; none run without a workspace."""
    if settings.workspace_root is None:
        return OFF
    prepare()  # the first command is not to wait for it
    return await choose(settings, env)


def _follow(circuits: Circuits, *, has_limits: bool) -> Callable[[Stores], Awaitable[None]]:
    """Return what is looked after again and again: which models are left alone, and whose turn it is to ask one."""

    async def learn(beside: Stores) -> None:
        circuits.refresh(await beside.circuits.all())

    async def wake(beside: Stores) -> None:
        if has_limits:
            await beside.model_limits.wake()

    async def follow(beside: Stores) -> None:
        await asyncio.gather(learn(beside), wake(beside))  # where one fails the other goes on

    return follow


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
