"""What is examined of plug-ins: what the settings here allow, and what the pools could load."""

from collections import defaultdict
from collections.abc import Sequence

from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.shared.plugins import fetch, sources
from ekiden.shared.setting_plugins import GROUPS, Group
from ekiden.shared.settings import Settings
from ekiden.shared.stores.views import PoolView

__all__ = ["allowed_here", "loaded_there"]

_OF_THE_POOLS: tuple[Group, ...] = ("tools", "hooks")
"""Groups that are loaded where legs run, and never in a command: what is missing here may be there."""


def allowed_here(settings: Settings) -> list[Finding]:
    """Judge what the settings allow, as far as this machine can tell: it loads what its own commands would load."""
    allowed = {group: settings.allowed(group) for group in GROUPS}
    named = {group: [*one.packages, *one.modules] for group, one in allowed.items()}
    if not any(named.values()):
        return [ok("plug-ins", "none are allowed")]
    from ekiden.dispatcher.bootstrap import strategies_of  # here: the routers take a second to import

    absent = [problem for group in _OF_THE_POOLS for problem in sources(group, allowed[group])[1]]
    commands, problems = sources("commands", allowed["commands"])
    problems += strategies_of(settings).problems
    problems += [f"commands: {one} {problem}" for one in commands if (problem := fetch(one)[1])]
    found = [error("plug-ins", problem, "mend the package or the setting") for problem in problems]
    found += [warning("plug-ins", problem, "unless the workers have it") for problem in absent]
    listed = "; ".join(f"{group} {', '.join(names)}" for group, names in named.items() if names)
    return found or [ok("plug-ins", f"allowed: {listed}")]


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
