"""The rules that a project brings, in all the files that may hold some: what it allows only by its user's word."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.jsonc import without_comments
from ekiden.shared.policy.claude_rules import read_permissions
from ekiden.shared.policy.rule_files import Loaded, in_place_of, shown_path
from ekiden.shared.policy.setting_rules import read_setting_rules
from ekiden.shared.policy.toml_rules import read_toml_rules
from ekiden.shared.risk import RISKS, Risk
from ekiden.shared.settings.files import place_in, project_file, read_settings, value_at
from ekiden.shared.storable import read_json
from ekiden.shared.trust.grants import grants_of
from ekiden.shared.trust.rights import Right, setting_rights, value_right

__all__ = [
    "POLICIES",
    "Folder",
    "FolderRules",
    "policy_rights",
    "read_policy_file",
    "read_policy_folder",
    "rules_of_folder",
]

POLICIES = Path(".gemini", "policies")
_CLAUDE = (Path(".claude", "settings.json"), Path(".claude", "settings.local.json"))
_LARGEST = 1_000_000
"""Bytes. A folder may hold anything under such a name, a device that never ends included."""
_MOST_FILES = 200


@dataclass(frozen=True)
class FolderRules:
    """The rules of one file of a project, and the right by which it may allow something."""

    loaded: Loaded
    right: Right | None = None
    """None: it allows nothing."""

    @property
    def rights(self) -> list[Right]:
        """What it needs, as a list."""
        return [] if self.right is None else [self.right]


@dataclass(frozen=True)
class Folder:
    """What counts of all that a project says.

    Attributes:
        sources: Its rules.
        levels: The levels of risk that run without asking; None: it does not say.
        may_widen: Whether these stand in the place of the operator's, instead of narrowing them.
        ignored: What does not count, for people.
    """

    sources: tuple[Loaded, ...] = ()
    levels: frozenset[Risk] | None = None
    may_widen: bool = False
    ignored: tuple[str, ...] = ()


def rules_of_folder(project: Path) -> Folder:
    """Return what counts of a project's rules, as far as it is trusted."""
    values, problem = _settings(project)
    found = [*_files(project), *problem, *_in_settings(project, values)]
    levels, right = _levels(project, values)
    is_asking = right is not None or any(one.right for one in found)
    lacking = grants_of(project).lacking if is_asking else _nothing
    counted = [one.loaded.safe if not lacking(one.rights) else one.loaded.safe.without_permissions() for one in found]
    ignored = [f"what {one.rights[0].subject} allows" for one in found if lacking(one.rights)]
    if value_at(values, "policy.files") is not None:
        ignored.append(f"setting policy.files: a project's rules stand in {POLICIES}")
    may_widen = right is not None and not lacking([right])
    return Folder(tuple(counted), levels, may_widen, tuple(ignored))


def policy_rights(project: Path) -> list[Right]:
    """Return the rights to what the policy files of a project allow, those in its settings file left out."""
    return [one.right for one in _files(project) if one.right is not None]


def read_policy_folder(folder: Path) -> list[Loaded]:
    """Read every ``*.toml`` of a folder, or the one file that it is, in the order of their names."""
    return [read_policy_file(path) for path in _toml_files(folder)]


def read_policy_file(path: Path) -> Loaded:
    """Read a file of gemini-cli's rules; one that cannot be read is a problem, and everything is asked about."""
    return _with_text(path, lambda text: read_toml_rules(text, shown_path(path)))


def _nothing(_: Iterable[Right]) -> list[Right]:
    return []


def _settings(project: Path) -> tuple[dict[str, Any], list[FolderRules]]:
    """Return the values of the project's settings file, and what stands for one that cannot be read."""
    path = project_file(project)
    try:
        return read_settings(path), []
    except ConfigurationError as error:
        rule = in_place_of(str(path), shown_path(path), str(error))
        return {}, [FolderRules(Loaded((rule,), (str(error),)))]


def _in_settings(project: Path, values: Mapping[str, Any]) -> Iterator[FolderRules]:
    for key, read in (("policy.rules", read_setting_rules), ("permissions", read_permissions)):
        if (value := value_at(values, key)) is not None:
            file, keys = project_file(project), key.split(".")
            place_of = partial(_place_in, file, keys)
            loaded = read(value, f"{key} in {shown_path(file)}", project, place_of)
            yield FolderRules(loaded, setting_rights(project, key, value)[0] if loaded.permissions else None)


def _levels(project: Path, values: Mapping[str, Any]) -> tuple[frozenset[Risk] | None, Right | None]:
    """Return the levels that a project names, and the right to have more than the operator's; none it cannot have."""
    value = value_at(values, "autoApprove")
    if value is None:
        return None, None
    named = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    levels = frozenset(level for level in RISKS[:-1] if level in [str(one).strip() for one in named])
    return levels, setting_rights(project, "autoApprove", value)[0]


def _files(project: Path) -> Iterator[FolderRules]:
    for path in _toml_files(project / POLICIES):
        loaded = read_policy_file(path)
        yield FolderRules(loaded, _right(path, project, loaded))
    for name in _CLAUDE:
        if os.path.lexists(path := project / name):
            loaded = _with_text(path, lambda text, path=path: _claude(text, path, project))
            yield FolderRules(loaded, _right(path, project, loaded))


def _right(path: Path, project: Path, loaded: Loaded) -> Right | None:
    """Return the right to what a file allows, as it says it: another text is another right."""
    if not loaded.permissions:
        return None
    name = path.relative_to(project)
    return value_right(f"policy file {name}", _text_of(path), f"policy file {name}: allows calls without asking")


def _claude(text: str, path: Path, project: Path) -> Loaded:
    try:
        values: Any = read_json(without_comments(text)) if text.strip() else {}
    except ValueError as error:
        return _unreadable(path, f"no valid JSON: {error}")
    permissions = values.get("permissions") if isinstance(values, dict) else values
    if permissions is None:
        return Loaded()
    return read_permissions(permissions, shown_path(path), project, partial(_place_in, path, ["permissions"]))


def _place_in(path: Path, keys: Sequence[str | int], inside: Sequence[str | int]) -> str:
    """Return file and line of what stands ``inside`` what stands at ``keys`` of a file of JSON."""
    line = place_in(path, [*keys, *inside]).removeprefix(str(path))
    return f"{shown_path(path)}{line}"


def _toml_files(folder: Path) -> list[Path]:
    if folder.suffix == ".toml":
        return [folder] if os.path.lexists(folder) else []
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".toml"))
    except OSError:
        return []
    return [folder / name for name in names[:_MOST_FILES]]


def _with_text(path: Path, read: Any) -> Loaded:
    try:
        loaded: Loaded = read(_text_of(path))
    except (OSError, ValueError) as error:
        return _unreadable(path, getattr(error, "strerror", None) or str(error))
    return loaded


def _unreadable(path: Path, problem: str) -> Loaded:
    name = shown_path(path)
    said = f"{name}:1: cannot be read: {problem}. Until it is mended, every tool is asked about"
    return Loaded((in_place_of(name, name, problem),), (said,))


def _text_of(path: Path) -> str:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no regular file")
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST:,} bytes")
    return data.decode("utf-8")
