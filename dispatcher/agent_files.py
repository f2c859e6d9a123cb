"""The agent files that a dispatcher goes by, read as they are now: a catalog, and what is wrong with the files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import Level, broken_agents, layered
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.definitions.trusted import levels_here, may_stay
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.project_folders import state_folder
from ekiden.shared.settings.model import Settings

__all__ = ["AgentFiles", "read_agent_files", "report", "state_of"]

_MOST_ENTRIES = 50_000
_EDGES = ("handoffs", "subagents", "name")
"""Aspects of errors that cost an agent no more than an edge, or its name."""

log = LateLogger(__name__)

State = frozenset[tuple[str, int, int, int]]
"""Path, time of the last change in ns, size and inode of each file: other texts are other states."""


@dataclass(frozen=True)
class AgentFiles:
    """What the files say."""

    catalog: Catalog
    sources: Mapping[str, str] = field(default_factory=dict)
    """The file of each agent."""
    problems: tuple[Problem, ...] = ()
    held: frozenset[str] = frozenset()
    """Agents that are without what they ask for: nobody has granted it to the project that brings them."""
    kept: frozenset[str] = frozenset()
    """Agents that are as they were, since their files cannot be read."""
    folders: tuple[Path, ...] = ()
    """Where they are, and may come."""


def read_agent_files(settings: Settings, before: AgentFiles | None = None) -> AgentFiles:
    """Read all levels, each agent as far as it is trusted. What was read ``before`` stands in for a broken file.

    Raises ``ConfigurationError`` where a settings file cannot be read.
    """
    levels = levels_here(settings)
    loaded = layered(level.loaded for level in levels)
    found = {definition.name: definition for definition in loaded.definitions}
    broken = broken_agents(loaded.problems)
    kept = _taken_back(found, before, loaded.problems, levels)
    sources = {**loaded.sources, **kept}
    catalog, problems = build_catalog(found.values(), sources, broken)
    if lost := _taken_back(found, before, problems, levels):  # what names them may be whole again by that
        of_lost = [one for one in problems if one.file in lost.values()]
        catalog, problems = build_catalog(found.values(), sources, broken)
        problems = list(dict.fromkeys([*of_lost, *problems]))
        kept |= lost
    held = frozenset(_names(level for level in levels if level.is_held))
    folders = tuple(dict.fromkeys(level.folder for level in levels if level.name != "shipped"))
    return AgentFiles(catalog, sources, (*loaded.problems, *problems), held, frozenset(kept), folders)


def report(problems: Iterable[Problem]) -> None:
    """Log what is wrong, with file and line."""
    for problem in problems:
        say = log.error if problem.severity == "error" else log.warning
        say("agent_file", at=problem.where, problem=problem.message)


def state_of(folders: Sequence[Path]) -> State:
    """Look at the agent files below ``folders``, and at what users have said of folders; none is opened."""
    return frozenset(entry for folder in (*folders, state_folder() / "trust") for entry in _entries(folder))


def _taken_back(
    found: dict[str, AgentDefinition], before: AgentFiles | None, problems: Iterable[Problem], levels: Sequence[Level]
) -> dict[str, str]:
    """Put into ``found`` what agents were ``before`` whose file is there and gives none any more, as far as they may.

    Returns them, each with its file.
    """
    if before is None:
        return {}
    files = {problem.file for problem in problems if problem.severity == "error" and problem.aspect not in _EDGES}
    agents = before.catalog.agents
    was = {name: file for name, file in before.sources.items() if file in files and name in agents}
    kept = {name: file for name, file in was.items() if found.get(name) != agents[name]}
    kept = {name: file for name, file in kept.items() if may_stay(agents[name], file, levels)}
    found |= {name: agents[name] for name in kept}
    return kept


def _names(levels: Iterable[Level]) -> Iterator[str]:
    return (agent.name for level in levels for agent in level.loaded.definitions)


def _entries(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    left, been = _MOST_ENTRIES, set[str]()
    for place, folders, files in os.walk(folder, followlinks=True):
        left -= len(folders) + len(files)
        if left < 0:
            return
        if (real := os.path.realpath(place)) in been:
            folders.clear()
            continue
        been.add(real)
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            if name.endswith((".md", ".json")):
                yield from _entry(Path(place, name))


def _entry(path: Path) -> Iterator[tuple[str, int, int, int]]:
    try:
        info = path.stat()
    except OSError:  # it has gone since, or is a link to nowhere
        return
    yield str(path), info.st_mtime_ns, info.st_size, info.st_ino
