"""The settings files: JSON with comments that others write to as well, so what is not ours is kept as it is."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.faults import why_unreadable
from ekiden.shared.jsonc import line_in, second_in, set_in, unset_in, without_comments
from ekiden.shared.project_folders import project_of
from ekiden.shared.storable import read_json

__all__ = ["Change", "change_setting", "global_file", "place_in", "project_file", "read_settings", "value_at"]

_FILE = Path(".gemini", "settings.json")
_LARGEST = 4_000_000
"""Bytes. A folder may hold anything under this name, a device that never ends included."""


@dataclass(frozen=True)
class Change:
    """What a settings file is about to say, to be judged before it does."""

    path: Path
    name: str
    """The field."""
    value: Any
    """None: nothing any more."""

    def made_in(self, path: Path, values: dict[str, Any]) -> dict[str, Any]:
        """Return what the file at ``path``, which says ``values``, by field, says then."""
        if path != self.path:
            return values
        others = {name: value for name, value in values.items() if name != self.name}
        return others if self.value is None else {**others, self.name: self.value}


def project_file(project: Path | None = None) -> Path:
    """Return the settings file of a project; None: of the one that the current folder belongs to."""
    return (project or project_of(Path.cwd())) / _FILE


def global_file() -> Path:
    """Return the user's settings file."""
    return Path.home() / _FILE


def read_settings(path: Path) -> dict[str, Any]:
    """Return the file's object, empty when there is no file. Raises ``ConfigurationError`` naming file and line."""
    try:
        text = _text_of(path)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {why_unreadable(error)}") from error
    try:
        plain = without_comments(text)
        values = read_json(plain) if plain.strip(" \t\r\n") else {}
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}: no valid JSON: {error.msg}; mend the file") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}:{_line_of_second(text)}: cannot be read: {error}; mend the file") from error
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path}:1: expected a JSON object, found {type(values).__name__}")
    return values


def _line_of_second(text: str) -> int:
    with suppress(RecursionError, ValueError):  # it nests too deep, or has a number of too many digits
        return second_in(text)
    return 1


def place_in(path: Path, keys: Sequence[str | int]) -> str:
    """Return file and line of what stands at ``keys``, for a message; the file alone where it cannot be read now."""
    try:
        return f"{path}:{line_in(_text_of(path), keys)}"
    except (OSError, ValueError, LookupError, ConfigurationError):
        return str(path)


def _text_of(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path}: is no regular file: remove it")
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ConfigurationError(f"{path}: is larger than {_LARGEST} bytes: no settings are. Shorten it")
    return data.decode("utf-8")


def value_at(values: Mapping[str, Any], key: str) -> Any:
    """Return what stands at the dotted ``key``; None when nothing does."""
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def change_setting(path: Path, key: str, value: Any) -> None:
    """Write ``value`` at the dotted ``key``, or remove it (None); atomic, and all else, comments too, is kept."""
    read_settings(path)  # which says what is wrong with the file
    text = _text_of(path) if path.exists() else ""
    names = key.split(".")
    try:
        changed = unset_in(text, names) if value is None else set_in(text, names, value)
    except KeyError as error:
        place = ".".join(error.args)
        raise ConfigurationError(f"{path}: {place!r} is no object, so it cannot hold {names[-1]!r}") from None
    _write(path, changed)


def _write(path: Path, text: str) -> None:
    """Replace the file at once; a link stays a link, and the mode stays as it was."""
    target = path.resolve()
    if path != global_file() and not target.is_relative_to(path.parents[1].resolve()):
        raise ConfigurationError(
            f"{path}: leads out of its project, to {str(target)!r}: change that, or remove the link"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(target, text.encode(), target.stat().st_mode & 0o7777 if target.exists() else 0o600)
    except (OSError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"{path}: cannot be written: {error}") from error
