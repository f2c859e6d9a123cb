"""Read agent files: one bad file, named with line and reason, never hides the others.

Precedence by name: project ``.gemini/agents/``, then global ``~/.gemini/agents/``, then extra folders in their order,
then the packs shipped in ``agents/``. A definition that a nearer one shadows is no problem.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.fields import DENIED_TOOLS, TOOLS, keys_of
from ekiden.shared.definitions.frontmatter import MAX_BYTES, read_front_matter
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.places import line_of
from ekiden.shared.definitions.problems import AgentFileError, Aspect, Problem
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.errors import DefinitionError
from ekiden.shared.packs import SYSTEM_PACK, pack_names, shipped_agents_dir
from ekiden.shared.trust.grants import stands_by

__all__ = [
    "AGENTS_FOLDER",
    "SHIPPED",
    "Level",
    "Loaded",
    "broken_agents",
    "layered",
    "load_all",
    "load_file",
    "load_folder",
    "load_levels",
    "name_in",
]

AGENTS_FOLDER = Path(".gemini", "agents")
"""Where a project and a home folder keep their agent files."""
SHIPPED = "shipped"
"""The scope of an agent that comes with Ekiden."""
_MAX_ENTRIES = 20_000
_WALK_S = 5.0
_MOST_TOLD = 50
"""Errors of one file."""


@dataclass(frozen=True)
class Loaded:
    """What a folder, or all of them, gave. Names are unique."""

    definitions: tuple[AgentDefinition, ...] = ()
    problems: tuple[Problem, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    """The file that each agent's definition comes from."""


@dataclass(frozen=True)
class Level:
    """A folder of agent files, by its place in the order of precedence."""

    name: Literal["project", "global", "extra", "shipped"]
    folder: Path
    loaded: Loaded
    project: Path | None = None
    """The project that brings these files; None: they are the user's own, or Ekiden's."""
    is_held: bool = False
    """Whether its agents are without what they ask for: nobody trusts the project that brings them."""


def load_all(
    project_dir: Path | None, extra_dirs: Iterable[Path] = (), home: Path | None = None, *, shipped: bool = True
) -> Loaded:
    """Load every level as ``load_levels``, the nearer ones winning by name; without ``shipped``, there is no pack."""
    levels = load_levels(project_dir, extra_dirs, home)
    return layered(level.loaded for level in levels if shipped or level.name != "shipped")


def load_levels(
    project_dir: Path | None,
    extra_dirs: Iterable[Path] = (),
    home: Path | None = None,
    packs: Iterable[str] | None = None,
) -> list[Level]:
    """Load every level, the nearest first.

    Args:
        project_dir: The project's root, if there is a project.
        extra_dirs: Folders of agent files, by setting; one that does not exist is a problem.
        home: The user's home folder; None leaves the global level out.
        packs: Which of those that come with Ekiden are the last level, beside ``system``; None: all.
    """
    levels = [_optional("project", project_dir), _optional("global", home)]
    levels += [Level("extra", folder, _load_extra(folder)) for folder in extra_dirs]
    ours = shipped_agents_dir()
    names = sorted({SYSTEM_PACK, *(pack_names() if packs is None else packs)})
    levels.append(Level("shipped", ours, layered(load_folder(ours / name, SHIPPED) for name in names)))
    return [level for level in levels if level is not None]


def layered(levels: Iterable[Loaded]) -> Loaded:
    """Let the nearer ones win by name, or by the tool that hands over to them; the nearest comes first."""
    definitions: dict[str, AgentDefinition] = {}
    taken: dict[str, int] = {}
    sources: dict[str, str] = {}
    problems: dict[Problem, None] = {}  # a folder that serves as two levels has its problems once
    for place, level in enumerate(levels):
        problems.update(dict.fromkeys(level.problems))
        for definition in level.definitions:
            nearest = taken.setdefault(transfer_tool_name(definition.name), place)
            # Two of the same level are told as a collision.
            if nearest == place and definition.name not in definitions:
                definitions[definition.name] = definition
                sources[definition.name] = level.sources[definition.name]
    return Loaded(tuple(definitions.values()), tuple(problems), sources)


def load_folder(path: Path, scope: str, *, within: Path | None = None) -> Loaded:
    """Load the agent files of a folder and of its sub-folders (packs), in the order of their paths.

    Skipped are ``_*.md``, folders whose name begins with ``_`` or ``.``, and everything that is not ``*.md``. Of two
    files with the same agent name, the first counts and the second is an error. What a link leads to outside of the
    folder ``within`` is an error, too, and so is a folder with more files than anybody has agents.
    """
    definitions: dict[str, AgentDefinition] = {}
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for file in _agent_files(path, problems, within):
        definition, found = load_file(file, scope)
        problems += found
        if definition is None:
            continue
        if definition.name in definitions:
            problems.append(_same_name(file, definition.name, sources[definition.name]))
            continue
        definitions[definition.name], sources[definition.name] = definition, str(file)
    return Loaded(tuple(definitions.values()), tuple(problems), sources)


def load_file(path: Path, scope: str) -> tuple[AgentDefinition | None, list[Problem]]:
    """Load one agent file; the definition is None when a problem is an error."""
    try:
        data = _read(path)
    except DefinitionError as error:
        return None, [Problem(str(path), _line_of(error, {}), "error", str(error), "front matter")]
    definition, problems = _understood(data, path, scope)
    return definition, list(problems)


@lru_cache(128)  # a process reads the same files several times: to trust them, to check them, to publish them
def _understood(data: bytes, path: Path, scope: str) -> tuple[AgentDefinition | None, Sequence[Problem]]:
    try:
        decoded = decode(data)
        parts = read_front_matter(decoded.text)
    except DefinitionError as error:
        return None, [Problem(str(path), _line_of(error, {}), "error", str(error), "front matter")]
    try:
        reading = read_definition(parts.fields, parts.body, scope, path.stem)
    except AgentFileError as error:
        problems = []
        for one in (error, *error.others)[:_MOST_TOLD]:
            line = _line_within(one, decoded.text) or _line_of(one, parts.lines)
            problems.append(Problem(str(path), line, "error", str(one), _aspect_of(one)))
        return None, problems
    found: list[tuple[int | None, str, Aspect]] = []
    if decoded.warning:
        found.append((decoded.line, decoded.warning, "front matter"))
    found += [(line, text, "front matter") for line, text in parts.warnings]
    found += [(parts.lines.get(field), text, _aspect(field)) for field, text in reading.notes]
    found += [(parts.lines.get(field), text, "tools") for field, text in reading.about_tools]
    if not reading.definition.instructions.strip() and reading.definition.graph is None:
        found.append((parts.body_line, "the body is empty: the agent has no instructions", "instructions"))
    return reading.definition, [Problem(str(path), line, "warning", text, aspect) for line, text, aspect in found]


def broken_agents(problems: Iterable[Problem]) -> dict[str, str]:
    """Return the agents whose files have errors, each with the place of the first one, ``file:line``."""
    found: dict[str, str] = {}
    for problem in problems:
        if problem.severity == "error" and problem.file.endswith(".md"):
            found.setdefault(name_in(Path(problem.file)), problem.where)
    return found


def name_in(broken: Path) -> str:
    """Return what an agent file that cannot be used calls its agent, else the file's name."""
    name = None
    with suppress(OSError, DefinitionError):
        is_small = broken.is_file() and broken.stat().st_size <= MAX_BYTES
        name = read_front_matter(decode(broken.read_bytes()).text).fields.get("name") if is_small else None
    return name if isinstance(name, str) and name.strip() else broken.stem


def _optional(name: Literal["project", "global"], root: Path | None) -> Level | None:
    if root is None:
        return None
    folder = root / AGENTS_FOLDER
    within = root if name == "project" and not stands_by(root) else None
    return Level(name, folder, load_folder(folder, name, within=within) if folder.is_dir() else Loaded())


def _load_extra(folder: Path) -> Loaded:
    if folder.is_dir():
        return load_folder(folder, "global")
    text = "this folder of agent files does not exist. Create it, or take it out of the settings"
    return Loaded(problems=(Problem(str(folder), None, "error", text),))


def _agent_files(folder: Path, problems: list[Problem], within: Path | None) -> list[Path]:
    found = [] if _leaves(folder, within, problems) else _walked(folder, problems, within)
    return [file for file in sorted(found) if not _leaves(file, within, problems)]


def _leaves(path: Path, within: Path | None, problems: list[Problem]) -> bool:
    if within is None or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(within)):
        return False
    text = "it leads out of the project by a link, and nobody trusts the project. `ekiden trust`, or remove the link"
    problems.append(Problem(str(path), None, "error", text))
    return True


def _walked(folder: Path, problems: list[Problem], within: Path | None) -> list[Path]:
    """Return the files below ``folder``, also behind links to folders, each of which is looked into once."""

    def note(error: OSError) -> None:
        problems.append(Problem(str(error.filename or folder), None, "error", _system_reason(error)))

    found: list[Path] = []
    been = {os.path.realpath(folder)}
    looked_at, deadline = 0, time.monotonic() + _WALK_S

    def is_new(path: Path) -> bool:
        real = os.path.realpath(path)
        if real in been or (path.is_symlink() and _leaves(path, within, problems)):
            return False
        been.add(real)
        return True

    for root, folders, files in os.walk(folder, onerror=note, followlinks=True):
        looked_at += len(files) + len(folders)
        if looked_at > _MAX_ENTRIES or time.monotonic() > deadline:
            text = f"more than {_MAX_ENTRIES} files lie here, or they are slow to list: the rest is not read"
            problems.append(Problem(str(folder), None, "error", text))
            break
        visible = sorted(name for name in folders if not name.startswith(("_", ".")))
        folders[:] = [name for name in visible if is_new(Path(root, name))]
        found += [Path(root, name) for name in files if name.endswith(".md") and not name.startswith(("_", "."))]
    return found


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise DefinitionError("it is not a regular file (a broken link?). Remove it")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DefinitionError(_system_reason(error)) from None
    if len(data) > MAX_BYTES:
        raise DefinitionError(f"the file is larger than {MAX_BYTES} bytes: no agent file is. Shorten it")
    return data


def _system_reason(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or error}. Mend its permissions, or remove it"


def _line_of(error: DefinitionError, lines: Mapping[str, int]) -> int | None:
    if not isinstance(error, AgentFileError):
        return None
    return lines.get(error.field) if error.line is None and error.field is not None else error.line


def _line_within(error: AgentFileError, text: str) -> int | None:
    return line_of(text, (error.field, *error.within)) if error.field is not None and error.within else None


def _aspect_of(error: AgentFileError) -> Aspect:
    return "fields" if error.is_missing else _aspect(error.field or "values")


def _aspect(field: str) -> Aspect:
    """Return what a note or a fault of a field is about; those of none are about one that is not there."""
    if not field:
        return "fields"
    return "tools" if keys_of({field: None}, [*TOOLS, *DENIED_TOOLS]) else "values"


def _same_name(file: Path, name: str, first: str) -> Problem:
    text = f"agent {name!r} is also defined in {first!r}, which counts. Rename one of the two"
    return Problem(str(file), None, "error", text, "values")
