"""What a rule may ask of a call beside the tool's name and the command.

Each condition is asked in two ways: a rule that restricts wants to know whether it *may* hold, one that allows whether
it *certainly* does. What cannot be told is a yes to the one, and a no to the other.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ekiden.shared.patterns import Pattern
from ekiden.shared.policy.path_patterns import PathPattern
from ekiden.shared.policy.tool_use import ToolUse

__all__ = ["PATH_ARGUMENTS", "Annotated", "ArgumentIs", "By", "Condition", "Hosts", "JsonFits", "PathIs", "RiskIs"]

PATH_ARGUMENTS = ("path", "file_path", "absolute_path", "dir_path", "directory", "folder", "paths", "include")
"""The names under which tools take files and folders."""
_LOOKS_WITHIN = frozenset({"grep", "read_many_files"})
"""Tools that return what files below a folder contain."""


class Condition(Protocol):
    """One thing that must be so for a rule to apply."""

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """Tell whether it may hold; ``certainly``: whether nothing else is possible."""
        ...


@dataclass(frozen=True)
class By:
    """By one of these agents, or for one of these users: shell-style patterns."""

    field: str
    names: tuple[str, ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        who = use.agent if self.field == "agent" else use.user
        if who is None:
            return not certainly
        is_claimed = self.field == "user" and use.is_user_claimed
        return any(fnmatchcase(who, name) for name in self.names) and not (certainly and is_claimed)


@dataclass(frozen=True)
class RiskIs:
    """Of one of these levels."""

    levels: tuple[str, ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        return use.risk in self.levels


@dataclass(frozen=True)
class Annotated:
    """What the tool says of itself."""

    wanted: tuple[tuple[str, bool], ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        return all(
            use.annotations[name] == value if name in use.annotations else not certainly for name, value in self.wanted
        )


@dataclass(frozen=True)
class JsonFits:
    """The arguments, as canonical JSON, hold what an expression fits: never sure, a text may stand in another field."""

    expression: Pattern

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        return not certainly and bool(self.expression.search(use.json))


@dataclass(frozen=True)
class ArgumentIs:
    """A named argument is one of these values; a text is a pattern in which ``*`` stands for anything."""

    name: str
    values: tuple[Any, ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        if self.name not in use.args:
            return False
        said = use.args[self.name]
        items = said if isinstance(said, list) and said else [said]
        return (all if certainly else any)(self._is_meant(item) for item in items)

    def _is_meant(self, item: Any) -> bool:
        return any(
            fnmatchcase(item, value)
            if isinstance(value, str) and isinstance(item, str)
            else type(value) is type(item) and value == item
            for value in self.values
        )


@dataclass(frozen=True)
class PathIs:
    """A file or folder, under whichever name the tool takes it, is meant by one of these patterns."""

    patterns: tuple[PathPattern, ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        places = list(_places(use))
        if certainly:
            return all(self._fits(real, use, ignore_case=False) for _, real in places)
        return any(
            self._fits(place, use, ignore_case=True)
            or self._fits(real, use, ignore_case=True)
            or self._is_below(use, real)
            for place, real in places
        )

    def _fits(self, path: str, use: ToolUse, *, ignore_case: bool) -> bool:
        return any(pattern.fits(path, use.cwd, ignore_case=ignore_case) for pattern in self.patterns)

    def _is_below(self, use: ToolUse, folder: str) -> bool:
        """Tell whether a tool that reads all below a folder would come upon what is meant."""
        if use.tool not in _LOOKS_WITHIN:
            return False
        roots = (pattern.root(use.cwd) for pattern in self.patterns)
        return any(root != use.cwd and root.is_relative_to(folder) and os.path.lexists(root) for root in roots)


def _places(use: ToolUse) -> Iterator[tuple[str, str]]:
    """Yield each path of a call: as it stands, made absolute, and without links."""
    for text in _paths_in(use.args):
        path = os.path.normpath(use.cwd / Path(text).expanduser() if "\0" not in text else use.cwd)
        yield path, os.path.realpath(path)


def _paths_in(args: Mapping[str, Any]) -> Iterable[str]:
    named = [args[name] for name in PATH_ARGUMENTS if name in args]
    texts = [item for value in named for item in (value if isinstance(value, list) else [value])]
    return [text for text in texts if isinstance(text, str)] or ["."]


@dataclass(frozen=True)
class Hosts:
    """An address on one of these hosts."""

    names: tuple[str, ...]

    def holds(self, use: ToolUse, *, certainly: bool) -> bool:
        """See ``Condition``."""
        if certainly:
            hosts = [_host_of(use.args.get("url"))]
            others = [value for name, value in use.args.items() if name != "url"]
            return all(map(self._is_meant, hosts)) and not any("://" in str(value) for value in others)
        return any(self._may_be_in(str(value).casefold()) for value in use.args.values())

    def _is_meant(self, host: str) -> bool:
        return bool(host) and any(fnmatchcase(host, name) for name in self.names)

    def _may_be_in(self, text: str) -> bool:
        return any(name.replace("*.", "").strip("*") in text for name in self.names)


def _host_of(url: Any) -> str:
    """Return the host of an address; empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".") if isinstance(url, str) else ""
    except ValueError:
        return ""
