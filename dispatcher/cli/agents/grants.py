"""What users write with our commands, they trust: no more than that."""

from collections.abc import Collection, Iterable
from pathlib import Path

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.shared.definitions.requested_rights import Names, rights_wanted
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import tool_files
from ekiden.shared.settings.files import project_file, read_settings, value_at
from ekiden.shared.settings.model import key_of, settings_wanted
from ekiden.shared.trust.rights import Right, script_rights
from ekiden.shared.trust.store import remember

__all__ = ["grant_agents", "grant_file_rights", "grant_setting"]

_SCRIPTS = "ekiden.scripts_dir"


def grant_agents(paths: Collection[Path]) -> None:
    """Remember that the user has written the files at these paths, where they are agents of the project."""
    agents = open_agents((), as_files=True)
    users = Names(file.name for file in agents.files if file.level != "project")
    written = (file.definition for file in agents.on("project") if _is_written(file.path, paths))
    _grant(right for agent in written if agent is not None for right in rights_wanted(agent, users))


def grant_setting(key: str) -> None:
    """Remember that the user has written this setting of the project: its value, no scripts that lie where it leads."""
    _grant(_rights_of(key))


def grant_file_rights(paths: Collection[Path]) -> None:
    """Remember that the user has written these tool files, and scripts, where the project's settings lead to them."""
    project = project_of(Path.cwd())
    folder = value_at(read_settings(project_file(project)), _SCRIPTS)
    scripts = script_rights(project, folder) if isinstance(folder, str) else {}
    rights = [file.right for file in tool_files(project) if _is_written(file.path, paths)]
    rights += [right for path, right in scripts.items() if _is_written(path, paths)]
    _grant([*rights, *(_rights_of(_SCRIPTS) if scripts else ())])


def _is_written(path: Path, paths: Collection[Path]) -> bool:
    """Tell whether the user has written this file of the project: no link of the project's to one that lies elsewhere.

    A link may be another file tomorrow, which would have what the user meant for their own.
    """
    return path in paths and path.resolve().is_relative_to(project_of(Path.cwd()))


def _rights_of(key: str) -> list[Right]:
    project = project_of(Path.cwd())
    wanted = settings_wanted(project, read_settings(project_file(project)))
    return [rights[0] for name, rights in wanted.items() if key_of(name) == key]


def _grant(rights: Iterable[Right]) -> None:
    if granted := list(rights):
        remember(project_of(Path.cwd()), granted=granted)
