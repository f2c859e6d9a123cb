"""What can be examined without a server: agent files, models, MCP servers, hooks, the collector."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ekiden.dispatcher.cli.agents.checks import Checker, script_reports
from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.agents.show import with_shipped
from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.dispatcher.cli.doctor.plugs import allowed_here, project_tools
from ekiden.dispatcher.cli.doctor.sandbox_checks import sandbox_here
from ekiden.shared.addresses import host_and_port
from ekiden.shared.errors import ConfigurationError, EkidenError
from ekiden.shared.llm.models import ModelValues, default_model, usable_models
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.mcp.entries import ServerEntry
from ekiden.shared.policy.policies import policy_in
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.hooks import configured_hooks
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.settings.unknown import unknown_settings
from ekiden.shared.telemetry.config import telemetry_config

__all__ = [
    "agent_files",
    "collector",
    "examine_here",
    "hooks",
    "mcp_servers",
    "models",
    "policy",
    "settings_files",
    "trust",
]

_CONNECT_S = 1.0
_ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
_SHOWN = 3


async def examine_here() -> list[Finding]:
    """Examine this machine."""
    settings = load_settings()
    plugs = allowed_here(settings)  # first: models of plug-ins are known then
    findings = [
        settings_files(),
        trust(),
        agent_files(),
        *scripts(settings),
        policy(settings),
        models(settings, os.environ),
        *plugs,
        *project_tools(project_of(Path.cwd())),
        mcp_servers(),
        hooks(),
    ]
    return [*findings, *await asyncio.gather(sandbox_here(), collector(settings, os.environ))]


def settings_files() -> Finding:
    """Tell which keys of ours in the settings files mean nothing."""
    if said := unknown_settings():
        return warning("settings files", f"no setting is called {', '.join(said)}", "ekiden config list names them all")
    return ok("settings files", "every key is known")


def trust() -> Finding:
    """Tell whether the project may do what it asks for."""
    trust_status = project_trust_of(project_of(Path.cwd()))
    if not trust_status.wanted:
        return ok("trust", "this folder asks for nothing that needs it")
    if trust_status.grants.problem:
        return warning("trust", f"nothing is granted to this folder: {trust_status.grants.problem}", "ekiden trust")
    if lacking := trust_status.lacking:
        text = f"of {len(trust_status.wanted)} things that this folder asks for, {len(lacking)} are not granted"
        return warning("trust", text, "ekiden trust")
    return ok("trust", f"all {len(trust_status.wanted)} things that this folder asks for are granted")


def agent_files() -> Finding:
    """Tell whether the agent files that count here can be read and fit together."""
    agents = open_agents(())
    checker = Checker(agents.in_force, broken=agents.broken)
    files = [file for file in agents.files if not file.is_shadowed]
    reports = [checker.report(file) for file in files]
    bad = [report for report in reports if report.count("error")]
    if not bad:
        shipped = sum(file.is_shipped for file in files)
        return ok("agent files", f"{with_shipped(f'{len(files) - shipped} here', shipped)}, all valid")
    names = ", ".join(str(report.file) for report in bad[:_SHOWN]) + (" …" if len(bad) > _SHOWN else "")
    return error("agent files", f"{len(bad)} of {len(reports)} have errors: {names}", "ekiden agents validate --all")


def scripts(settings: Settings) -> list[Finding]:
    """Tell whether the user's scripts of the stand-in model can be played; nothing where there are none."""
    if settings.scripts_dir is None:
        return []
    bad = [line for report in script_reports(settings.scripts_dir) for line in report.errors]
    if not bad:
        return [ok("scripts", f"all in {settings.scripts_dir} can be played")]
    return [error("scripts", " | ".join(bad[:_SHOWN]) + (" | …" if len(bad) > _SHOWN else ""), "mend the file")]


def policy(settings: Settings) -> Finding:
    """Tell which rules of calls count here, and what nobody can read of them."""
    found = policy_in(settings, Path.cwd())
    counts = f"{len(found.rules)} rules; without one, {', '.join(sorted(found.auto_approve)) or 'nothing'} runs unasked"
    if not found.problems:
        return ok("policy", counts)
    more = len(found.problems) - _SHOWN
    text = " | ".join(found.problems[:_SHOWN]) + (f" | and {more} more" if more > 0 else "")
    return warning("policy", text, "mend these; `ekiden policy check` says what holds of a call")


def models(settings: Settings, env: Mapping[str, str]) -> Finding:
    """Tell which model agents without one of their own get here."""
    try:
        default = default_model(ModelValues(model=settings.model, aliases=settings.model_aliases), env)
    except EkidenError as fault:
        return error("models", str(fault), "ekiden models")
    usable = [model.name for model in usable_models(env) if model.usable]
    if default.note:
        return warning("models", f"{default.name} only: {default.note}", "ekiden models")
    return ok("models", f"{default.name} by default; usable: {', '.join(usable)}")


def mcp_servers() -> Finding:
    """Tell which MCP servers the settings name; `ekiden mcp test` starts one."""
    try:
        found = configured_servers(project_of(Path.cwd()))
    except ConfigurationError as fault:
        return error("MCP servers", str(fault), "mend the file")
    if found.problems:
        return error("MCP servers", "; ".join(found.problems), "mend the entry, or remove it")
    missing = [f"{name}: {entry.command}" for name, entry in found.servers.items() if _lacks_its_program(entry)]
    if missing:
        remedy = "install it, or mend 'command' where workers run; `ekiden mcp test NAME` starts one"
        return warning("MCP servers", f"programs that are not here: {', '.join(missing)}", remedy)
    if found.held:
        text = f"this folder's {', '.join(found.held)} wait until you trust it"
        return warning("MCP servers", f"{text}; configured: {', '.join(found.servers) or 'none'}", "ekiden trust")
    return ok("MCP servers", f"configured: {', '.join(found.servers)}" if found.servers else "none configured")


def hooks() -> Finding:
    """Tell which commands the settings let look at jobs, and which of them cannot."""
    try:
        found = configured_hooks(project_of(Path.cwd()))
    except ConfigurationError as fault:
        return error("hooks", str(fault), "mend the file: no worker starts with it")
    if found.problems:
        return error("hooks", "; ".join(found.problems), "write a command, or remove it")
    commands = ", ".join(f"{one.at} {one.name or one.command}" for _, entries in found.entries for one in entries)
    if found.held:
        text = (
            f"this folder's at {', '.join(found.held)} wait until you trust it; those that count: {commands or 'none'}"
        )
        return warning("hooks", text, "ekiden trust")
    return ok("hooks", commands or "no commands")


def _lacks_its_program(entry: ServerEntry) -> bool:
    """Tell whether the program is not found; one that a variable names may be anywhere."""
    if entry.command is None or "$" in entry.command:
        return False
    is_path = "/" in entry.command
    program = str(Path(entry.cwd or "") / entry.command) if is_path else entry.command
    return shutil.which(program, path=entry.env.get("PATH")) is None


async def collector(settings: Settings, env: Mapping[str, str]) -> Finding:
    """Tell whether somebody listens where traces are to go."""
    name = next((name for name in _ENDPOINTS if env.get(name)), None)
    try:
        problem = telemetry_config(settings, env).problem
    except ConfigurationError as fault:
        problem = str(fault)
    if problem:
        return error("collector", problem)
    if name is None:
        return ok("collector", f"none ({_ENDPOINTS[0]} is not set)")
    address = host_and_port(env[name], 443 if env[name].startswith("https:") else 4318)
    if address is None:  # which may hold a key
        return error("collector", f"{name} is no address", "give one such as http://localhost:4318")
    host, port = address
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except (OSError, TimeoutError):
        return error("collector", f"nobody answers at {host}:{port}", f"start a collector there, or unset {name}")
    return ok("collector", f"answers at {host}:{port}")
