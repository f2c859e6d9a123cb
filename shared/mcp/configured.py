"""Which MCP servers the settings name: the user's, and those of a project as far as it is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry, servers_in
from ekiden.shared.settings_files import global_file, project_file, read_settings
from ekiden.shared.trust.grants import grants_of
from ekiden.shared.trust.notices import tell
from ekiden.shared.trust.rights import section_rights

__all__ = ["Configured", "configured_servers", "project_files"]

_SECTION = "mcpServers"
_CLAUDE = ".mcp.json"


@dataclass(frozen=True)
class Configured:
    """The servers that may be used, by name, and what is wrong with the rest."""

    servers: Mapping[str, ServerEntry] = field(default_factory=dict)
    origins: Mapping[str, Path] = field(default_factory=dict)
    """The file that names each."""
    problems: tuple[str, ...] = ()


def project_files(project: Path) -> tuple[Path, ...]:
    """Return the files of a project that may name servers; the last one counts most."""
    return (project / _CLAUDE, project_file(project))


def configured_servers(project: Path) -> Configured:
    """Read the settings files: of two servers of one name, the one that stands nearer counts.

    Raises:
        ConfigurationError: a file cannot be read at all.
    """
    servers: dict[str, ServerEntry] = {}
    origins: dict[str, Path] = {}
    problems: list[str] = []
    for path, values in _files(project):
        for name, found in servers_in(values):
            # What is wrong hides a server of the same name farther off: it was meant to take its place.
            servers.pop(name, None)
            if isinstance(found, ConfigurationError):
                problems.append(f"{path}: {found}")
            else:
                servers[name], origins[name] = found, path
    return Configured(servers, origins, tuple(problems))


def _files(project: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the files with what counts of them, the nearest last."""
    theirs = [(path, _granted(project, path, read_settings(path))) for path in project_files(project)]
    return [(global_file(), read_settings(global_file())), *theirs]


def _granted(project: Path, path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    asked = {name: right for section, name, right in section_rights(values) if section == _SECTION}
    held = {name for name, right in asked.items() if grants_of(project).lacking([right])}
    if not held:
        return values
    tell(project, f"ignored MCP servers {', '.join(map(repr, sorted(held)))} of {path.name}")
    return {_SECTION: {name: value for name, value in values[_SECTION].items() if name not in held}}
