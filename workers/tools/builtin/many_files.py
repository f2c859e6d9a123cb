"""Several files at once: ``read_many_files``."""

from itertools import chain

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.shared.globs import glob_expression
from ekiden.shared.patterns import MAX_LENGTH, Pattern
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.paths import files_under, opened_folder, place_of, shown
from ekiden.workers.tools.builtin.patterns import compiled
from ekiden.workers.tools.builtin.searching import Visited, encoded, text_of

__all__ = ["read_many_files"]

_MOST_PATTERNS = 50
_MAX_FILES = 200
_MAX_CHARS = 90_000
"""Of one answer: below the tool runner's cap, so that what was left out is always told."""


class ReadManyFiles(BaseModel):
    """Read all text files that match, each behind a line with its path. Binary files are passed over."""

    include: list[str] = Field(
        min_length=1, max_length=_MOST_PATTERNS, description="Paths and globs, such as src/**/*.py; relative to path."
    )
    exclude: list[str] = Field(default=[], max_length=_MOST_PATTERNS, description="Globs of files to leave out.")
    path: str = Field(default=".", description="The folder to read in.")


@tool(ReadManyFiles, read_only=True, needs_workspace=True)
def read_many_files(args: ReadManyFiles, context: ToolContext) -> str:
    """Return the texts in the order of their paths, as many as fit."""
    included, excluded = (_compiled(patterns) for patterns in (args.include, args.exclude))
    place = place_of(args.path, context)
    with opened_folder(place, context):  # which says what else is there
        visited = Visited(files_under(place))
    texts: list[str] = []
    left_out: list[str] = []
    room = _MAX_CHARS
    for file in visited:
        name = encoded(file.path)
        if not any(one.search(name) for one in included) or any(one.search(name) for one in excluded):
            continue
        if (text := text_of(file)) is None:
            continue
        piece = f"--- {shown(place.real / file.path, context)} ---\n{text.printable}"
        if len(piece) > room or len(texts) >= _MAX_FILES:
            left_out.append(shown(place.real / file.path, context))
            continue
        room -= len(piece)
        texts.append(piece)
    if not texts and not left_out:
        return "\n".join(chain([f"no text file matches {', '.join(map(repr, args.include))}"], visited.notes))
    notes = [f"(left out, read them with read_file: {', '.join(left_out[:_MAX_FILES])})"] if left_out else []
    return "\n".join([*texts, *notes, *visited.notes])


def _compiled(patterns: list[str]) -> list[Pattern]:
    for pattern in patterns:
        if pattern.startswith("/") or ".." in pattern.split("/") or len(pattern) > MAX_LENGTH:
            raise ToolError(f"{pattern[:80]!r} must be relative, short and without '..': name the folder in path")
    return [compiled(glob_expression(pattern), named=pattern) for pattern in patterns]
