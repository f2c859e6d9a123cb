"""What a folder may do here: the one place that decides.

A project may do what its user granted it, right by right. The user's own folder may do everything, and so may what
``EKIDEN_TRUST`` names: ``1`` (all that this process looks at), or the paths of folders, joined as in ``PATH`` or as a
JSON list.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import project_of
from ekiden.shared.trust.rights import Right
from ekiden.shared.trust.store import Remembered, remembered

__all__ = ["VARIABLE", "Grants", "grants_of", "stands_by", "trust_for_now", "vouches_for"]

VARIABLE = "EKIDEN_TRUST"
_ALL, _NONE = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True)
class Grants:
    """What a project may do.

    Attributes:
        granted: The rights that its user gave it.
        refused: Those that the user was asked for, and did not give.
        is_all: Whether it may do everything.
        problem: Why what was remembered cannot be read; nothing is granted then.
    """

    granted: frozenset[Right] = frozenset()
    refused: frozenset[Right] = frozenset()
    is_all: bool = False
    problem: str = ""

    def lacking(self, wanted: Iterable[Right]) -> list[Right]:
        """Return those of ``wanted`` that it does not have."""
        return [] if self.is_all else _not_in(self.granted, wanted)

    def because(self, held: Iterable[Right]) -> str:
        """Say in parentheses why it does not have the rights in ``held``, where more than its user's word lacks."""
        problems = list(filter(None, [self.problem, *(right.problem for right in held)]))
        return f" ({'; '.join(problems)})" if problems else ""

    def unasked(self, wanted: Iterable[Right]) -> list[Right]:
        """Return those of ``wanted`` that nobody was asked for yet, and can be."""
        return [right for right in _not_in(self.refused, self.lacking(wanted)) if not right.problem]


def grants_of(project: Path) -> Grants:
    """Return what the project, a folder as ``project_of`` tells it, may do.

    Raises:
        ConfigurationError: ``EKIDEN_TRUST`` cannot be understood.
    """
    if _may_do_all(project):
        return Grants(is_all=True)
    try:
        said = remembered(project)
    except (ConfigurationError, OSError) as error:
        return Grants(problem=str(error))
    return Grants(said.granted, said.refused)


def vouches_for(project: Path) -> bool:
    """Tell whether the user vouches for the texts in the ``project``: said yes to the folder itself.

    Where it cannot be told, the answer is no. The project is as ``grants_of`` takes it.
    """
    return _said(project, lambda said: said.is_vouched)


def stands_by(project: Path) -> bool:
    """Tell whether the user has granted the project anything, or vouches for it, and refused it nothing."""
    return _said(project, lambda said: said.is_vouched or bool(said.granted))


def _said(project: Path, is_yes: Callable[[Remembered], bool]) -> bool:
    try:
        if _may_do_all(project):
            return True
        said = remembered(project)
    except (ConfigurationError, OSError):
        return False
    return is_yes(said) and not said.refused


def trust_for_now(projects: Iterable[Path]) -> None:
    """Let this process, and those that it starts, trust the projects."""
    if (named := _named()) is not None:
        os.environ[VARIABLE] = json.dumps([*map(str, named), *map(str, projects)])


def _may_do_all(project: Path) -> bool:
    if project == Path(os.path.realpath(Path.home())):
        return True
    named = _named()
    return named is None or any(project == project_of(folder) for folder in named)


def _named() -> list[Path] | None:
    """Return the folders that ``EKIDEN_TRUST`` names; None: all."""
    said = os.environ.get(VARIABLE, "").strip()
    if said.lower() in _ALL:
        return None
    if said.lower() in _NONE:
        return []
    folders = _listed(said) if said.startswith("[") else [part for part in said.split(os.pathsep) if part]
    for folder in folders:
        if not (isinstance(folder, str) and Path(folder).is_absolute()) or _is_a_list(folder):
            raise ConfigurationError(
                f"{VARIABLE} names {folder!r}: give 1, 0, or absolute paths of folders, joined by {os.pathsep!r}"
            )
    return [Path(folder) for folder in folders]


def _is_a_list(folder: str) -> bool:
    """Tell whether commas join what colons should."""
    return ",/" in folder and not Path(folder).exists()


def _listed(said: str) -> list[str]:
    try:
        folders: list[str] = json.loads(said)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} is no valid JSON list: {error}") from None
    return folders


def _not_in(rights: frozenset[Right], wanted: Iterable[Right]) -> list[Right]:
    by_subject = defaultdict(list)
    for right in rights:
        by_subject[right.subject].append(right)
    return [one for one in wanted if not any(right.covers(one) for right in by_subject[one.subject])]
