"""Rights: what a folder asks for beyond what is harmless, each in a form that can be remembered and compared.

The texts of agents are no rights: a reworded one may do no more than before.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.faults import why_unreadable

__all__ = [
    "Right",
    "content_of",
    "fault_of",
    "file_right",
    "limit_right",
    "script_rights",
    "section_rights",
    "setting_rights",
    "tool_right",
    "value_right",
]

_TOOL = "tool "
_UP_TO = " up to "
_WILD = frozenset("*?[")
_LARGEST = 4_000_000
"""Bytes of a script, or of a tool file. A folder may hold anything there, a device that never ends included."""
_SECTIONS = {"mcpServers": "MCP server", "hooks": "hook"}
"""Parts of a settings file that bring programs or addresses, and what each of their entries is."""
_SETTINGS_IN = {"hooks": frozenset({"packages", "modules"})}
"""Entries of these parts that are settings, and rights as such (``setting_rights``)."""


@dataclass(frozen=True)
class Right:
    """One thing that a folder asks for.

    Attributes:
        subject: Who gets it: ``agent debugger``, ``setting ekiden.redis_url``, ``MCP server github``.
        what: What it is: ``tool bash``, or the digest of a value.
        without: The tools that a pattern of tools does not mean.
        shown: How people read it. Not trusted to be harmless on a terminal, and it may hold a secret.
    """

    subject: str
    what: str
    without: frozenset[str] = frozenset()
    shown: str = field(default="", compare=False)
    problem: str = field(default="", compare=False)
    """Why nobody can grant it, and what to do; empty: its user can."""

    def covers(self, wanted: "Right") -> bool:
        """Tell whether who has this right has ``wanted``, too."""
        if self.subject != wanted.subject:
            return False
        if self.what == wanted.what:
            return self.without <= wanted.without
        if _UP_TO in self.what and _UP_TO in wanted.what:
            (mine, most), (theirs, wish) = (one.what.split(_UP_TO, 1) for one in (self, wanted))
            return mine == theirs and float(wish) <= float(most)
        if not (self.what.startswith(_TOOL) and wanted.what.startswith(_TOOL)):
            return False
        mine, theirs = self.what.removeprefix(_TOOL), wanted.what.removeprefix(_TOOL)
        if _WILD & set(theirs):
            return mine == "*" and self.without <= wanted.without
        return fnmatchcase(theirs, mine) and not any(fnmatchcase(theirs, but) for but in self.without)


def tool_right(subject: str, entry: str, denied: tuple[str, ...]) -> Right:
    """Return the right to the tools that ``entry`` names, a name or a pattern, without what is ``denied``."""
    but = frozenset(denied) if _WILD & set(entry) else frozenset[str]()
    named = "every tool" if entry == "*" else entry
    return Right(subject, f"{_TOOL}{entry}", but, f"{named} but {', '.join(sorted(but))}" if but else named)


def limit_right(subject: str, limit: str, most: float) -> Right:
    """Return the right to a limit that is higher than usual, or lower than that."""
    what = f"{limit}{_UP_TO}{most:g}"
    return Right(subject, what, shown=what)


def value_right(subject: str, value: Any, shown: str, field: str = "") -> Right:
    """Return the right to something that a value (of a ``field``) describes: another value is another right."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    except (RecursionError, TypeError) as error:  # YAML has keys of several types
        raise ConfigurationError(f"{subject}: its value cannot be compared ({error}): simplify it") from None
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Right(subject, f"{field} {digest}".lstrip(), shown=shown)


def file_right(subject: str, name: str, path: Path, content: bytes | None, shown: str) -> Right:
    """Return the right to a file as it is: its text is code, or calls. Nobody can grant one without content."""
    if content is None:
        fault = f"{path.name} {fault_of(path)}"
        return Right(subject, f"{name} {secrets.token_hex()}", shown=f"{shown}: {fault}", problem=fault)
    return Right(subject, f"{name} {hashlib.sha256(content).hexdigest()}", shown=shown)


def content_of(path: Path) -> bytes | None:
    """Return the bytes of a file that a folder brings; None: it is none, cannot be read, or is too large."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            data = opened.read(_LARGEST + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None
    except OSError:
        return None
    return None if data is None or len(data) > _LARGEST else data


def fault_of(path: Path) -> str:
    """Return why ``content_of`` has nothing of a file, and what to do."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return f"is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}: remove it"
        with path.open("rb"):
            return f"is larger than {_LARGEST:,} bytes: shorten it"
    except OSError as error:
        return f"cannot be read ({why_unreadable(error)}): make it readable, or remove it"


def setting_rights(project: Path, key: str, value: Any) -> list[Right]:
    """Return what a project's setting asks for: its value, and each script, as it is, of a folder of them."""
    subject = f"setting {key}"
    rights = [value_right(subject, value, f"{key} = {_json(value)}")]
    if key == "ekiden.scripts_dir" and isinstance(value, str):
        rights += script_rights(project, value).values()
    return rights


def script_rights(project: Path, folder: str) -> dict[Path, Right]:
    """Return what the scripts in a project's folder of them ask for, each as it is."""
    paths = _scripts_in(project / folder)
    names = {path: f"script {path.name}" for path in paths}
    return {
        path: file_right("setting ekiden.scripts_dir", name, path, content_of(path), name)
        for path, name in names.items()
    }


def section_rights(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Right]]:
    """Yield what a settings file brings beside settings: section, name in it, and the right to it."""
    for section, kind in _SECTIONS.items():
        entries = values.get(section)
        for name, value in entries.items() if isinstance(entries, Mapping) else ():
            if name in _SETTINGS_IN.get(section, ()):
                continue
            yield section, name, value_right(f"{kind} {name}", value, f"{kind} {name}: {_json(value)}")


def _scripts_in(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.yaml"))
    except (OSError, ValueError):  # no path at all: nobody will read scripts there
        return []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
