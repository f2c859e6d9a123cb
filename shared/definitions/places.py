"""The line of a value within the front matter of an agent file, looked up where something is wrong with it."""

from contextlib import suppress
from pathlib import Path

import yaml

from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.frontmatter import MAX_BYTES, fences
from ekiden.shared.errors import DefinitionError
from ekiden.shared.yaml_places import Place, line_at

__all__ = ["line_in", "line_of"]


def line_of(text: str, place: Place) -> int | None:
    """Return the line, from 1, of the last part of ``place`` that the text of an agent file has; None: of none."""
    with suppress(yaml.YAMLError, DefinitionError, RecursionError):
        lines = text.split("\n")
        start, end = fences(lines)
        node = yaml.compose("".join(f"{line}\n" for line in lines[start + 1 : end]), Loader=yaml.SafeLoader)
        line = line_at(node, place)
        return None if line is None else start + 2 + line
    return None


def line_in(path: str | Path, place: Place) -> int | None:
    """Return as ``line_of`` for a file; None where it cannot be read."""
    with suppress(OSError, DefinitionError), Path(path).open("rb") as file:
        return line_of(decode(file.read(MAX_BYTES)).text, place)
    return None
