"""What a user is told of a folder that is not trusted: each thing once, on standard error."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from ekiden.shared.once import Once
from ekiden.shared.terminal_text import note

__all__ = ["BASH", "hint", "take_over", "tell", "tell_beside"]

BASH = "the tool bash runs any command as you: `ekiden doctor` says what confines it"
"""What users are told before they let an agent have it."""

_told = Once()
_advised = Once()
_taken_over: set[Path] = set()


def tell(project: Path, what: str) -> None:
    """Say what the folder does not get, unless this process has said so, or does it otherwise."""
    if project in _taken_over or not _told.first((project, what)):
        return
    advice = f" {hint(project)}" if _advised.first(project) else ""
    note(f"ekiden: the folder {str(project)!r} is not trusted: {what}.{advice}")


def tell_beside(project: Path, agents: Iterable[str]) -> None:
    """Say once that agents of a folder, whatever it is trusted with, lead to others that the user has named beside."""
    names = ", ".join(agents)
    if _told.first((project, names)):
        note(
            f"ekiden: {names} of {str(project)!r} would hand over to agents of the folder that you name, and get only "
            "tools that read beside it, or are not used"
        )


def take_over(project: Path) -> None:
    """Leave it to the caller to tell the user all about the folder."""
    _taken_over.add(project)


def hint(project: Path) -> str:
    """Say what shows and grants what the folder asks for."""
    path = str(project)
    shown = shlex.quote(path) if path.isprintable() else repr(path)
    where = "" if Path.cwd().is_relative_to(project) else f" {shown}"
    return f"`ekiden trust{where}` shows what it asks for, and grants it"
