"""The line of a value within the front matter of an agent file, looked up where something is wrong with it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.frontmatter import MAX_BYTES, fences
from ekiden.shared.errors import DefinitionError

__all__ = ["line_in", "line_of"]

Place = Sequence[str | int]
"""Keys of objects and numbers of entries, from the top of the front matter on."""


def line_of(text: str, place: Place) -> int | None:
    """Return the line, from 1, of the last part of ``place`` that the text of an agent file has; None: of none."""
    with suppress(yaml.YAMLError, DefinitionError, RecursionError):
        lines = text.split("\n")
        start, end = fences(lines)
        node = yaml.compose("".join(f"{line}\n" for line in lines[start + 1 : end]), Loader=yaml.SafeLoader)
        return _found(node, place, start + 2)
    return None


def line_in(path: str | Path, place: Place) -> int | None:
    """Return as ``line_of`` for a file; None where it cannot be read."""
    with suppress(OSError, DefinitionError), Path(path).open("rb") as file:
        return line_of(decode(file.read(MAX_BYTES)).text, place)
    return None


def _found(node: yaml.Node | None, place: Place, first_line: int) -> int | None:
    line = None
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if str(key.value) == str(part)), None)
            if pair is None:
                return line
            line, node = first_line + pair[0].start_mark.line, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = first_line + node.start_mark.line
        else:
            return line
    return line
