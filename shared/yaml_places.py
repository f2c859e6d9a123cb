"""YAML that people write, with the line of everything in it. JSON is such YAML."""

from collections.abc import Sequence
from typing import Any

import yaml

from ekiden.shared.errors import InvalidRequest

__all__ = ["LocatedYaml", "Place", "line_at"]

_LONGEST = 1_000_000
Place = Sequence[str | int]
"""Keys of objects and numbers of entries, from the top on."""


class LocatedYaml:
    """The data of a text, and where each part of it stands. Raises ``InvalidRequest`` with file and line."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        if len(text) > _LONGEST:
            raise InvalidRequest(f"{file}: is longer than {_LONGEST:,} characters: split it")
        try:
            if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
                raise InvalidRequest(f"{file}: aliases (*name) are not read here: write the values out")
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
