"""Which MCP servers the settings name: the user's, and those of a project as far as it is trusted."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.mcp.entries import ServerEntry, servers_in
from ekiden.shared.settings.files import global_file, place_in, project_file, read_settings
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
    held: Mapping[str, Path] = field(default_factory=dict)
    """Those that a project's file names and nobody has granted it, with that file."""


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
    held: dict[str, Path] = {}
    for path, written in _files(project):
        refused = _held(project, written) if path != global_file() else []
        if refused:
            held |= dict.fromkeys(refused, path)
            tell(project, f"ignored MCP servers {', '.join(map(repr, refused))} of {path.name}")
        values = {_SECTION: _without(written.get(_SECTION), refused)}
        for name, found in servers_in(values):
            # What is wrong hides a server of the same name farther off: it was meant to take its place.
            servers.pop(name, None)
            if isinstance(found, ConfigurationError):
                problems.append(f"{place_in(path, [_SECTION, name])}: {found}")
            else:
                servers[name], origins[name] = found, path
    return Configured(servers, origins, tuple(problems), held)


def _files(project: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the files, the nearest last."""
    return [(path, read_settings(path)) for path in (global_file(), *project_files(project))]


def _held(project: Path, values: Mapping[str, Any]) -> list[str]:
    """Return the servers that the project was not granted."""
    asked = {name: right for section, name, right in section_rights(values) if section == _SECTION}
    return sorted(name for name, right in asked.items() if grants_of(project).lacking([right]))


def _without(servers: Any, names: Collection[str]) -> Any:
    return {name: one for name, one in servers.items() if name not in names} if names else servers
