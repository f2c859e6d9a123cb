"""The agent files that the ``agents`` commands work on: every level's, with what is wrong with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ekiden.shared.definitions.loader import AGENTS_FOLDER, Level, broken_agents, load_file, load_folder, name_in
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.definitions.trusted import files_here, trusted
from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.model import load_settings

__all__ = ["AgentFile", "Agents", "files_at", "folder_of", "open_agents"]


@dataclass(frozen=True)
class AgentFile:
    """One agent file on its level."""

    name: str
    """The agent's name; the file's where it could not be read."""
    path: Path
    level: str
    """``project``, ``global``, ``extra`` or ``shipped``; empty for a file that is on none."""
    definition: AgentDefinition | None
    problems: tuple[Problem, ...] = ()
    is_shadowed: bool = False
    """A nearer level has an agent of this name, or with the same tool, which counts instead."""
    is_held: bool = False
    """It is without what it asks for: nobody trusts the project that brings it."""

    @property
    def is_shipped(self) -> bool:
        """Whether it came with the installation."""
        return self.level == "shipped"


class Agents:
    """All agent files, the nearest level first."""

    def __init__(self, levels: Iterable[Level]) -> None:
        self.files: list[AgentFile] = []
        taken: set[str] = set()
        for level in levels:
            files = list(_files_of(level))
            self.files += [replace(file, is_shadowed=transfer_tool_name(file.name) in taken) for file in files]
            taken |= {transfer_tool_name(file.name) for file in files if file.definition is not None}

    @property
    def in_force(self) -> Mapping[str, AgentDefinition]:
        """The definitions that count, by name."""
        return {file.name: file.definition for file in self.files if file.definition and not file.is_shadowed}

    @property
    def broken(self) -> dict[str, str]:
        """Agents whose files have errors, each with the place of the first one."""
        without = (file for file in self.files if file.definition is None)
        return broken_agents(problem for file in without for problem in file.problems)

    @property
    def sources(self) -> dict[str, str]:
        """The file of each definition that counts."""
        return {file.name: str(file.path) for file in self.files if file.definition and not file.is_shadowed}

    def on(self, level: str) -> list[AgentFile]:
        """Return the files of one level, or of ``all``."""
        return [file for file in self.files if level in ("all", file.level)]

    def get(self, name: str, level: str = "all") -> AgentFile:
        """Return the agent's file: the one that counts, else one of that name that could not be read.

        Raises:
            UnknownAgent: there is none (on this level); the message has the near names.
        """
        files = self.on(level)
        named = [file for file in files if file.name == name] or [file for file in files if file.path.stem == name]
        if named:
            return next((file for file in named if file.definition), named[0])
        where = "" if level == "all" else f" on the level {level!r}"
        names = sorted({file.name for file in files})
        near = get_close_matches(name, names, n=3)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "`ekiden agents list` shows all"
        raise UnknownAgent(f"no agent is named {name!r}{where}. {hint}")


def open_agents(agents_dir: Sequence[Path], *, project: Path | None = None, as_files: bool = False) -> Agents:
    """Read every level, each agent as far as it is trusted.

    Args:
        agents_dir: Extra folders by the user's word; empty: those of the settings.
        project: Another project whose agents are read, too.
        as_files: Read them as they are written, to check or to change them, whoever trusts them.
    """
    files = files_here(load_settings(project=project), agents_dir)
    counting = trusted(files)
    return Agents([_with_unused(level, counting) for level in files] if as_files else counting)


def _with_unused(level: Level, counting: Iterable[Level]) -> Level:
    """Return a level of files as they are written, with warnings of those that are not used since nobody trusts it."""
    loaded = level.loaded
    those = [one for other in counting if other.folder == level.folder for one in other.loaded.problems]
    more = tuple(replace(one, severity="warning") for one in those if one not in loaded.problems)
    return replace(level, loaded=replace(loaded, problems=(*loaded.problems, *more)))


def files_at(path: Path) -> list[AgentFile]:
    """Return the agent file at ``path``, or those of the folder, wherever it is. Raises ``InvalidRequest``."""
    if path.is_dir():
        return Agents([Level("extra", path, load_folder(path, "project"))]).files
    if not path.exists():
        raise InvalidRequest(f"there is no file {str(path)!r}: give an agent's name, a file or a folder")
    definition, problems = load_file(path, "project")
    return [AgentFile(definition.name if definition else path.stem, path, "", definition, tuple(problems))]


def folder_of(scope: str) -> Path:
    """Return where agent files of the scope ``project`` or ``global`` are."""
    if scope not in ("project", "global"):
        raise InvalidRequest(f"the scope is {scope!r}: it must be 'project' or 'global'")
    return (project_of(Path.cwd()) if scope == "project" else Path.home()) / AGENTS_FOLDER


def _files_of(level: Level) -> Iterator[AgentFile]:
    loaded = level.loaded
    paths = {loaded.sources[definition.name] for definition in loaded.definitions}
    for definition in loaded.definitions:
        source = loaded.sources[definition.name]
        problems = tuple(problem for problem in loaded.problems if problem.file == source)
        yield AgentFile(definition.name, Path(source), level.name, definition, problems, is_held=level.is_held)
    for file in dict.fromkeys(problem.file for problem in loaded.problems if problem.file not in paths):
        problems = tuple(problem for problem in loaded.problems if problem.file == file)
        yield AgentFile(name_in(Path(file)), Path(file), level.name, None, problems)
