"""What is examined at the server: its state and clock, the catalog, the queues and who serves them."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.connection import configured, server_address
from ekiden.dispatcher.cli.doctor.durability_checks import losses
from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.dispatcher.cli.doctor.plugs import loaded_there
from ekiden.dispatcher.cli.doctor.sandbox_checks import sandboxes_there
from ekiden.dispatcher.cli.views.circuits import told_of
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.dispatcher.cli.views.model_limits import told_of_limit
from ekiden.dispatcher.cli.views.waterfall import duration
from ekiden.dispatcher.publishing import difference, published_ago
from ekiden.shared.addresses import without_password
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.errors import ConfigurationError, StoreUnavailable
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.model_limits import limits_of
from ekiden.shared.relay.message import DISPATCH_QUEUE, agent_of, queue_for
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores import keys
from ekiden.shared.stores.circuits import CircuitView
from ekiden.shared.stores.clock import Jump
from ekiden.shared.stores.dead_letters import DeadLetters
from ekiden.shared.stores.durability import info_of
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.redis import as_any, translated
from ekiden.shared.stores.views import PoolView
from ekiden.shared.version import VERSION

__all__ = [
    "agents_served",
    "circuits",
    "clock",
    "dead_letters",
    "examine_server",
    "model_limits",
    "own_files",
    "queues_served",
    "servers_there",
    "stuck_tools",
    "versions",
]

MAX_SKEW_MS = 1_000
MANY_STUCK = 5
"""Calls of tools that never returned, from which on it is told."""
MOST_STUCK = 100


async def examine_server(redis: str | None, data_dir: Path | None) -> list[Finding]:
    """Examine the configured server, or the data folder's."""
    try:
        is_configured = configured(redis, data_dir)[0] is not None
        with server_address(redis, data_dir) as url:
            stores = open_stores(url, retries=1)
            try:
                return await _examine(stores)
            finally:
                await stores.close()
    except StoreUnavailable as fault:
        if is_configured:
            return [error("server", str(fault))]
        return [warning("server", "none runs here, and none is configured: `ekiden run` starts one for itself")]
    except ConfigurationError as fault:
        return [error("server", str(fault))]


async def _examine(stores: Stores) -> list[Finding]:
    await stores.ping()
    info = await translated(info_of)(stores.client, "server", "memory")
    before = time.time()
    server_ms = await stores.now_ms()
    here_ms = round((before + time.time()) * 500)
    catalog, manifest = await _catalog(stores, server_ms)
    agents = sorted(manifest)
    pools = await stores.pools.pools()
    return [
        ok("server", f"{_product(info)} answers at {without_password(stores.url)}"),
        *await _condition(stores, info),
        *losses(await stores.durability(), load_settings().wait_replicas),
        clock(server_ms - here_ms, await stores.jobs.clock.last_jump()),
        catalog,
        *own_files(manifest),
        *agents_served(agents, pools),
        *stuck_tools(pools),
        *queues_served(await stores.pools.queues()),
        *dead_letters(await stores.dead_letters.look()),
        *circuits(await stores.circuits.all()),
        *await model_limits(stores),
        *loaded_there(pools),
        *sandboxes_there(pools),
        *servers_there(pools),
        versions(pools),
    ]


def circuits(failing: Sequence[CircuitView]) -> list[Finding]:
    """Tell of models that have failed and not answered since, each worker's calls together."""
    return [
        warning("calls of models", f"{one.model} {told_of(one)}", "ekiden models")
        if one.has_opened
        else ok("calls of models", f"{one.model} {told_of(one)}")
        for one in failing
    ]


async def model_limits(stores: Stores) -> list[Finding]:
    """Tell how much of each limit of a model is used."""
    settings, found = load_settings(), []
    if settings.model_limits:
        learn_providers(settings)
    for name, limit in limits_of(settings.model_limits, os.environ).items():
        if limit is None:
            found.append(warning("limits of models", f"no provider here has a model {name!r}", "ekiden models"))
        else:
            state = await stores.model_limits.state(limit)
            found.append(ok("limits of models", f"{name}: {told_of_limit(limit, state)}"))
    return found


def _product(info: Mapping[str, Any]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'or Valkey, of unknown version,')}"


async def _condition(stores: Stores, info: Mapping[str, Any]) -> list[Finding]:
    try:
        await stores.check()
    except ConfigurationError as fault:
        return [error("version and eviction", str(fault))]
    health_problem = await stores.health_problem()
    policy = info.get("maxmemory_policy", "unknown")
    version = "new enough" if "redis_version" in info else "of unknown version"
    return [
        ok("version and eviction", f"{version}; maxmemory-policy {policy}"),
        *([error("writes", health_problem)] if health_problem else []),
    ]


def clock(skew_ms: int, jump: Jump | None) -> Finding:
    """Judge by how much the server's clock is ahead of this machine's; tell of its last jump."""
    jumped = f"; {_jumped(jump)}" if jump else ""
    if abs(skew_ms) <= MAX_SKEW_MS:
        return ok("clock", f"{abs(skew_ms)} ms apart from the server's{jumped}")
    where = "behind" if skew_ms > 0 else "ahead of"
    text = f"this machine is {abs(skew_ms) / 1000:.1f} s {where} the server: traces of several machines do not line up"
    return warning("clock", text + jumped, "let NTP set both clocks")


def _jumped(jump: Jump) -> str:
    where = f"{duration(abs(jump.by_ms))} {'forward' if jump.by_ms > 0 else 'back'}"
    times = f" (jump {jump.jumps})" if jump.jumps > 1 else ""
    return f"the server's went {where} to {local_time(jump.at_ms)}{times}: leases, timers and deadlines took no notice"


async def _catalog(stores: Stores, now_ms: int) -> tuple[Finding, dict[str, str]]:
    digest, in_force = await stores.catalogs.current(), await stores.catalogs.in_force()
    if digest is None:
        return warning("catalog", "nobody has published agents yet", "ekiden dispatcher"), {}
    if in_force is None:
        return error("catalog", f"{digest[:12]} has expired: jobs wait", "ekiden catalog publish"), {}
    values = await as_any(translated(stores.client.hvals)(keys.catalog(digest)))
    size_kb = sum(map(len, values)) / 1024
    published = published_ago(digest, await stores.catalogs.history(1), now_ms)
    text = f"{digest[:12]}, {len(in_force.manifest)} agents, {size_kb:.0f} KB{published}"
    return ok("catalog", text), in_force.manifest


def own_files(manifest: Mapping[str, str]) -> list[Finding]:
    """Judge whether the agent files here, if there are any beside those that ship, are those in force."""
    agents = open_agents(())
    if not manifest or all(file.is_shipped for file in agents.files):
        return []
    here = build_catalog(agents.in_force.values(), agents.sources)[0]
    differs = difference(manifest, here.digests)
    if not differs:
        return []
    text = f"the agent files here are not those in force: {differs}"
    return [warning("agents in force", text, "ekiden catalog publish, if they are to be")]


def agents_served(agents: Sequence[str], pools: Sequence[PoolView]) -> list[Finding]:
    """Judge whether requests find a dispatcher, and every agent of the catalog a worker."""
    if not pools:
        return [warning("pools", "none runs", "ekiden up, or ekiden dispatcher and ekiden worker")]
    served = {queue for pool in pools for queue in pool.queues}
    found = [ok("pools", f"{len(pools)} run, {sum(pool.in_flight for pool in pools)} legs in flight")]
    if DISPATCH_QUEUE not in served:
        found.append(error("dispatcher", "none runs: new jobs wait", "ekiden dispatcher"))
    if idle := [agent for agent in agents if queue_for(agent) not in served]:
        text = f"no worker serves {', '.join(idle)}: a job that is handed to them waits"
        found.append(warning("workers", text, f"ekiden worker --agents {quote(','.join(idle))}"))
    elif agents:
        found.append(ok("workers", f"every agent has one: {', '.join(agents)}"))
    return found


def stuck_tools(pools: Sequence[PoolView]) -> list[Finding]:
    """Judge whether calls of tools that were given up still hold threads."""
    stuck = {pool.id: int(pool.extra.get("stuck_tools", "0")) for pool in pools}
    worst = {pool: count for pool, count in stuck.items() if count >= MANY_STUCK}
    return [
        warning("tools", f"{count} calls never returned in {pool}", f"restart it; it begins none beyond {MOST_STUCK}")
        for pool, count in worst.items()
    ]


def servers_there(pools: Sequence[PoolView]) -> list[Finding]:
    """Judge whether the MCP servers that workers know work there."""
    return [
        warning(
            "MCP servers of the pools",
            f"{name} at {pool.id}: {problem}",
            f"ekiden mcp test {quote(name)}, on that machine",
        )
        for pool in pools
        for name, problem in sorted(pool.servers.items())
        if problem
    ]


def queues_served(queues: Sequence[QueueView]) -> list[Finding]:
    """Judge whether what waits is waited for."""
    stuck = [queue for queue in queues if queue.waiting and not queue.pools]
    if not stuck:
        return [ok("queues", f"{sum(queue.waiting for queue in queues)} messages wait, all have a consumer")]
    return [
        error("queues", f"{queue.waiting} in {queue.name}, which nobody consumes", _starter(queue.name))
        for queue in stuck
    ]


def dead_letters(found: DeadLetters) -> list[Finding]:
    """Judge whether somebody else writes to the queues."""
    if found.newest is None:
        return []
    text = f"{found.count} were found in queues; the newest in {found.newest.queue}: {found.newest.reason}"
    return [warning("dead letters", text, "ekiden status --dead-letters, and --clear once you know who sent them")]


def _starter(queue: str) -> str:
    agent = agent_of(queue)
    return f"ekiden worker --agents {quote(agent)}" if agent else "ekiden dispatcher"


def versions(pools: Sequence[PoolView]) -> Finding:
    """Judge whether all pools, and this program, are of one version."""
    found = {pool.version or "unknown" for pool in pools} | {VERSION}
    if len(found) == 1:
        return ok("versions", f"all {VERSION}")
    named = ", ".join(f"{pool.id} {pool.version or 'unknown'}" for pool in pools if pool.version != VERSION)
    return warning("versions", f"this program is {VERSION}, others are not: {named}", "deploy one version everywhere")
