"""How a project stands with its user: what it asks for, and what of that it was granted."""

from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.definitions.trusted import agents_wanted, files_here
from ekiden.shared.mcp.configured import project_files
from ekiden.shared.policy.folder_rules import policy_rights
from ekiden.shared.project_tools import tool_files
from ekiden.shared.settings.files import project_file, read_settings
from ekiden.shared.settings.model import load_settings, settings_wanted
from ekiden.shared.trust.grants import Grants, grants_of
from ekiden.shared.trust.rights import Right, section_rights

__all__ = ["ProjectTrust", "project_trust_of"]


@dataclass(frozen=True)
class ProjectTrust:
    """What a project asks for. A project that asks for nothing needs no trust."""

    project: Path
    wanted: tuple[Right, ...]
    grants: Grants

    @property
    def grantable(self) -> list[Right]:
        """What its user can grant it."""
        return [right for right in self.wanted if not right.problem]

    @property
    def lacking(self) -> list[Right]:
        """What it was not granted."""
        return self.grants.lacking(self.wanted)

    @property
    def unasked(self) -> list[Right]:
        """What its user was not asked for yet."""
        return self.grants.unasked(self.wanted)


def project_trust_of(project: Path) -> ProjectTrust:
    """Look at all that the project's files ask for.

    Raises:
        ConfigurationError: its settings file, or another that counts here, cannot be read.
    """
    values = read_settings(project_file(project))
    rights = [right for rights in settings_wanted(project, values).values() for right in rights]
    rights += [right for path in project_files(project) for _, _, right in section_rights(read_settings(path))]
    rights += policy_rights(project)
    rights += [file.right for file in tool_files(project)]
    levels = files_here(load_settings(project=project))
    return ProjectTrust(project, (*agents_wanted(levels, project), *rights), grants_of(project))
