"""What can be examined without a server: agent files, models, MCP servers, the collector."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ekiden.dispatcher.cli.agents.checks import Checker
from ekiden.dispatcher.cli.agents.discovery import configured_servers, open_agents
from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.shared.errors import EkidenError
from ekiden.shared.llm.models import ModelValues, default_model, usable_models
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings import Settings, load_settings

__all__ = ["agent_files", "collector", "examine_here", "mcp_servers", "models", "trust"]

_CONNECT_S = 1.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_SHOWN = 3


async def examine_here() -> list[Finding]:
    """Examine this machine."""
    return [trust(), agent_files(), models(load_settings(), os.environ), mcp_servers(), await collector(os.environ)]


def trust() -> Finding:
    """Tell whether the project may do what it asks for."""
    standing = project_trust_of(project_of(Path.cwd()))
    if not standing.wanted:
        return ok("trust", "this folder asks for nothing that needs it")
    if standing.grants.problem:
        return warning("trust", f"nothing is granted to this folder: {standing.grants.problem}", "ekiden trust")
    if lacking := standing.lacking:
        text = f"of {len(standing.wanted)} things that this folder asks for, {len(lacking)} are not granted"
        return warning("trust", text, "ekiden trust")
    return ok("trust", f"all {len(standing.wanted)} things that this folder asks for are granted")


def agent_files() -> Finding:
    """Tell whether the agent files that count here can be read and fit together."""
    agents = open_agents(())
    checker = Checker(agents.in_force)
    reports = [checker.report(file) for file in agents.files if not file.is_shadowed]
    bad = [report for report in reports if report.count("error")]
    if not bad:
        return ok("agent files", f"{len(reports)} here, all valid")
    names = ", ".join(str(report.file) for report in bad[:_SHOWN]) + (" …" if len(bad) > _SHOWN else "")
    return error("agent files", f"{len(bad)} of {len(reports)} have errors: {names}", "ekiden agents validate --all")


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
    """Tell which MCP servers the settings name."""
    names = configured_servers()
    return ok("MCP servers", f"configured: {', '.join(names)}" if names else "none configured")


async def collector(env: Mapping[str, str]) -> Finding:
    """Tell whether somebody listens where traces are to go."""
    name = next((name for name in _ENDPOINTS if env.get(name)), None)
    if name is None:
        return ok("collector", f"none ({_ENDPOINTS[0]} is not set)")
    try:
        address = urlsplit(env[name])
        host, port = address.hostname, address.port or (443 if address.scheme == "https" else 4318)
    except ValueError:
        host, port = None, 0
    if not host:
        return error(
            "collector", f"{name} is no address", "give one such as http://localhost:4318"
        )  # it may hold a key
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except (OSError, TimeoutError):
        return error("collector", f"nobody answers at {host}:{port}", f"start a collector there, or unset {name}")
    return ok("collector", f"answers at {host}:{port}")
