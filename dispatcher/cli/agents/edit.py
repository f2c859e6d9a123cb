"""``ekiden agents edit``: an editor on a copy; only what still is an agent file takes the old one's place."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ekiden.dispatcher.cli.agents.discovery import AgentFile, Agents, folder_of
from ekiden.dispatcher.cli.agents.files import replace_file
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.errors import ConfigurationError, InvalidRequest

__all__ = ["Edited", "edit", "rejected_copy"]


@dataclass(frozen=True)
class Edited:
    """How an edit ended."""

    path: Path
    """The agent's file."""
    is_saved: bool
    problems: tuple[Problem, ...] = ()
    """Of the new text; with errors, it was not saved."""
    rejected: Path | None = None
    """Where a refused text is kept."""


def edit(file: AgentFile, agents: Agents) -> Edited:
    """Let the user edit the agent's file; a shipped one becomes a file of the project.

    Raises:
        ConfigurationError: there is no editor, or it failed; or the file cannot be written.
    """
    target = folder_of("project") / file.path.name if file.is_shipped else file.path
    before = _bytes_of(file.path)
    with tempfile.TemporaryDirectory(prefix="ekiden-edit-") as folder:
        copy = Path(folder, file.path.name)
        copy.write_bytes(before)
        _run_editor(copy)
        after = _bytes_of(copy)
        if after == before:
            return Edited(target, is_saved=False)
        problems = _problems_of(copy, file, agents)
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors and _was_changed(target, file, before):
        errors = [Problem(str(target), None, "error", "somebody else changed the file meanwhile. Edit it again")]
    target.parent.mkdir(parents=True, exist_ok=True)
    if errors:
        rejected = rejected_copy(target)
        replace_file(rejected, after)
        return Edited(target, is_saved=False, problems=tuple(errors), rejected=rejected)
    replace_file(target, after)
    return Edited(target, is_saved=True, problems=tuple(problems))


def rejected_copy(path: Path) -> Path:
    """Return where a refused text of the file is kept; it is no agent file by its name."""
    return path.with_name(f"{path.name}.rejected")


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


def _was_changed(target: Path, file: AgentFile, before: bytes) -> bool:
    """Whether the file that will be written is another than at the start; a new file must not be there yet."""
    return target.exists() if file.is_shipped else not target.exists() or target.read_bytes() != before


def _problems_of(copy: Path, file: AgentFile, agents: Agents) -> list[Problem]:
    definition, problems = load_file(copy, file.level or "project")
    if definition is None or definition.name == file.name:
        return problems
    others = [other for other in agents.on(file.level) if other.name == definition.name and other.path != file.path]
    if others:
        text = f"the agent's new name {definition.name!r} is taken by {str(others[0].path)!r}. Take another"
        problems.append(Problem(str(copy), None, "error", text))
    return problems


def _run_editor(path: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest("this is not a terminal, and an editor needs one: set EDITOR to a command that needs none")
    command = command or shutil.which("vi") or shutil.which("nano")
    if not command:
        raise ConfigurationError("there is no editor: set EDITOR to the command of one")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(f"EDITOR is {command!r}, which is no command: {error}") from None
    if not words:
        raise InvalidRequest("EDITOR is blank: set it to the command of an editor")
    try:
        code = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        raise ConfigurationError(f"the editor {words[0]!r} cannot be started: {error.strerror}. Set EDITOR") from None
    if code:
        raise ConfigurationError(f"the editor {words[0]!r} ended with code {code}: nothing was saved")
