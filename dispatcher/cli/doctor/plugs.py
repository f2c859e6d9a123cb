"""What is examined of plug-ins: what the settings here allow, and what the pools could load."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.shared.plugins import fetch, sources
from ekiden.shared.project_tools import tool_files
from ekiden.shared.settings.model import Settings
from ekiden.shared.settings.plugins import GROUPS, Group
from ekiden.shared.stores.views import PoolView
from ekiden.shared.trust.grants import grants_of

__all__ = ["allowed_here", "loaded_there", "project_tools"]

_OF_THE_POOLS: tuple[Group, ...] = ("tools", "hooks", "outputs")
"""Groups that are loaded where legs run, and never in a command: what is missing here may be there."""


def allowed_here(settings: Settings) -> list[Finding]:
    """Judge what the settings allow, as far as this machine can tell: it loads what its own commands would load."""
    allowed = {group: settings.allowed(group) for group in GROUPS}
    named = {group: [*one.packages, *one.modules] for group, one in allowed.items()}
    if not any(named.values()):
        return [ok("plug-ins", "none are allowed")]
    from ekiden.dispatcher.routing_bootstrap import strategies_of  # here: the routers take a second to import

    absent = [problem for group in _OF_THE_POOLS for problem in sources(group, allowed[group])[1]]
    commands, problems = sources("commands", allowed["commands"])
    problems += strategies_of(settings).problems
    problems += [f"commands: {one} {problem}" for one in commands if (problem := fetch(one)[1])]
    found = [error("plug-ins", problem, "mend the package or the setting") for problem in problems]
    found += [warning("plug-ins", problem, "unless the workers have it") for problem in absent]
    listed = "; ".join(f"{group} {', '.join(names)}" for group, names in named.items() if names)
    return found or [ok("plug-ins", f"allowed: {listed}")]


def project_tools(project: Path) -> list[Finding]:
    """Name the tool files of the project, none of which is run here; nothing where there are none."""
    if not (files := tool_files(project)):
        return []
    listed = "; ".join(f"{file.path.name}: {', '.join(file.tools) or 'no @tool'}" for file in files)
    lacking = grants_of(project).lacking([file.right for file in files])
    if lacking:
        text = f"{listed}: {len(lacking)} of {len(files)} files are not loaded, as nobody has allowed them"
        return [warning("project tools", text, "ekiden trust")]
    if empty := [file.name for file in files if not file.tools]:
        return [warning("project tools", listed, f"write @tool above a function in {', '.join(empty)}")]
    return [ok("project tools", listed)]


def loaded_there(pools: Sequence[PoolView]) -> list[Finding]:
    """Judge what the pools say that they have loaded: what they could not, and whether they have the same."""
    found = [
        error("plug-ins of the pools", f"{pool.id}: {problem}", "mend it there, and start the pool again")
        for pool in pools
        for problem in pool.problems
    ]
    by_tool: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pool in pools:
        for tool in pool.tools:
            by_tool[tool.name][tool.digest].append(f"{tool.package} {tool.version} at {pool.id}".strip())
    for name, by_digest in by_tool.items():
        if len(by_digest) > 1:
            ones = ", ".join(sorted(places[0] for places in by_digest.values()))
            text = f"the tool {name!r} is not the same everywhere: {ones}"
            found.append(warning("plug-ins of the pools", text, "deploy one version everywhere"))
    return found
