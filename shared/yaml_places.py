"""YAML that people write, with the line of everything in it. JSON is such YAML."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import why_unreadable

__all__ = ["LONGEST", "LocatedYaml", "Place", "SafeYamlLoader", "fault_in_yaml", "line_at", "read_at_most"]
try:
    from yaml import CSafeLoader as SafeYamlLoader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as SafeYamlLoader  # type: ignore[assignment]  # the same interface, other bases

LONGEST = 1_000_000
"""Characters of what people write."""
_MOST_VALUES = 100_000
"""And the values in it, which cost a second or two."""
Place = Sequence[str | int]
"""Keys of objects and numbers of entries, from the top on."""


class LocatedYaml:
    """The data of a text, and where each part of it stands. Raises ``InvalidRequest`` with file and line."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        if len(text) > LONGEST:
            raise InvalidRequest(f"{file}: is longer than {LONGEST:,} characters: split it")
        try:
            with suppress(yaml.YAMLError):  # which the slower loader says better
                if fault := fault_in_yaml(text, _MOST_VALUES):
                    raise InvalidRequest(f"{file}: {fault}: write the values out, in several files")
            loader = yaml.SafeLoader(text)
            self._root = loader.get_single_node()
            self._refuse_twice()
            self.data: Any = None if self._root is None else loader.construct_document(self._root)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            raise InvalidRequest(f"{file}:{line}: no YAML: {getattr(error, 'problem', None) or error}") from None

    def place(self, path: Place) -> str:
        """Return file and line of what stands at ``path``, or of the nearest thing around it."""
        line = line_at(self._root, path)
        if line is None:
            line = 0 if self._root is None else self._root.start_mark.line
        return f"{self._file}:{line + 1}"

    def _refuse_twice(self) -> None:
        """Raise for a key that an object has twice: only one would count."""
        waiting = [self._root] if self._root is not None else []
        while waiting:
            node = waiting.pop()
            if isinstance(node, yaml.SequenceNode):
                waiting += node.value
            elif isinstance(node, yaml.MappingNode):
                seen: set[str] = set()
                for key, value in node.value:
                    name = str(key.value)
                    if name in seen:
                        line = key.start_mark.line + 1
                        raise InvalidRequest(f"{self._file}:{line}: {name!r} stands there twice: remove one")
                    seen.add(name)
                    waiting.append(value)


def fault_in_yaml(text: str, most: int) -> str:
    """Say why YAML is not read; empty: it has no aliases, and at most ``most`` values. Raises ``YAMLError``."""
    for number, event in enumerate(yaml.parse(text, Loader=SafeYamlLoader)):
        if isinstance(event, yaml.AliasEvent):
            return "aliases (*name) are not read here"
        if number > most:
            return f"has more than {most:,} values"
    return ""


def read_at_most(path: Path, most: int) -> str:
    """Return the text of a file, of which no more than ``most`` bytes are read, and nothing is waited for.

    Raises ``InvalidRequest``: it is larger, no ordinary file, no UTF-8, or cannot be read.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InvalidRequest(f"{path}: cannot be read: it is no ordinary file")
            data = file.read(most + 1) if found.st_size <= most else b""
        if max(found.st_size, len(data)) > most:
            raise InvalidRequest(f"{path}: is larger than {most:,} bytes")
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: cannot be read: {why_unreadable(error)}") from None


def line_at(node: yaml.Node | None, path: Place) -> int | None:
    """Return the line, from 0, of the last part of ``path`` that is below ``node``; None: of none."""
    line = None
    for step in path:
        if (below := _below(node, step)) is None:
            break
        line, node = below
    return line


def _below(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        found = ((key.start_mark.line, value) for key, value in node.value if str(key.value) == str(step))
        return next(found, None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None
