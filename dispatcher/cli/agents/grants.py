"""What users write with our commands, they trust: no more than that."""

from collections.abc import Iterable
from pathlib import Path

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.requested_rights import Names, rights_wanted
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings import key_of, settings_wanted
from ekiden.shared.settings_files import project_file, read_settings
from ekiden.shared.trust.rights import Right
from ekiden.shared.trust.store import remember

__all__ = ["grant_agent", "grant_setting"]


def grant_agent(agent: AgentDefinition) -> None:
    """Remember that the user has written this agent of the project."""
    users = Names(file.name for file in open_agents((), as_files=True).files if file.level != "project")
    _grant(rights_wanted(agent, users))


def grant_setting(key: str) -> None:
    """Remember that the user has written this setting of the project: its value, no scripts that lie where it leads."""
    wanted = settings_wanted(project_of(Path.cwd()), read_settings(project_file()))
    _grant(rights[0] for name, rights in wanted.items() if key_of(name) == key)


def _grant(rights: Iterable[Right]) -> None:
    if granted := list(rights):
        remember(project_of(Path.cwd()), granted=granted)
