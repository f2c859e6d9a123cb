"""Finding files and lines: ``glob`` and ``grep``."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from itertools import islice

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.shared.globs import glob_expression
from ekiden.shared.patterns import MAX_LENGTH, pattern_among_lines
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.paths import (
    Found,
    Place,
    files_under,
    open_file,
    opened_folder,
    place_of,
    printable,
    shown,
)
from ekiden.workers.tools.builtin.patterns import compiled
from ekiden.workers.tools.builtin.safe_open import folder_below, folder_held, open_regular, read_all
from ekiden.workers.tools.builtin.text_file import MAX_BYTES, TextFile

__all__ = ["Visited", "encoded", "glob", "grep", "text_of"]

_MAX_PATHS = 500
_MAX_MATCHES = 500
_MAX_LINE_CHARS = 300
_MAX_VISITED = 50_000
"""Files that one search looks at: it holds a thread of the tool runner, and nothing can interrupt it."""
_MAX_SECONDS = 20.0
"""After which a search ends by itself, with what it has found."""
_MAX_WORK = 200_000_000
"""Bytes of one line times instructions of the pattern: two seconds at most."""
_BLOCK = 1 << 16
"""Bytes of lines that are searched at once."""
_LINES_A_LOOK = 64
"""Lines between two looks at the clock."""


class Glob(BaseModel):
    """Find files by name. ``**`` stands for any folders, so ``**/*.py`` finds every Python file."""

    pattern: str = Field(min_length=1, max_length=MAX_LENGTH, description="Such as src/**/*.{js,ts}; relative to path.")
    path: str = Field(default=".", description="The folder to search in.")


@tool(Glob, read_only=True, needs_workspace=True)
def glob(args: Glob, context: ToolContext) -> str:
    """Return the paths of the files that match, sorted, one per line."""
    if args.pattern.startswith("/") or ".." in args.pattern.split("/"):
        raise ToolError(f"the pattern {args.pattern!r} must be relative and without '..': name the folder in path")
    place = place_of(args.path, context)
    with opened_folder(place, context):  # which says what else is there
        visited = Visited(files_under(place))
    expression = compiled(glob_expression(args.pattern), named=args.pattern)
    found = [file.path for file in visited if expression.search(encoded(file.path))]
    lines = sorted(shown(place.real / path, context) for path in found)
    notes = visited.notes
    if len(lines) > _MAX_PATHS:
        notes = [f"(cut: {_MAX_PATHS} of {len(lines):,} files; narrow the pattern)", *notes]
    if not lines:
        hint = "" if "**" in args.pattern else "; '**/' before it searches the folders below as well"
        notes = [f"no file matches {args.pattern!r} under {args.path!r}{hint}", *notes]
    return "\n".join(lines[:_MAX_PATHS] + notes)


class Grep(BaseModel):
    """Search files for a regular expression (RE2 syntax), line by line. Prints file:line:text."""

    pattern: str = Field(
        min_length=1, max_length=MAX_LENGTH, description="The regular expression; (?i) at its start ignores case."
    )
    path: str = Field(default=".", description="A folder, searched with all below it, or one file.")
    include: str | None = Field(
        default=None, max_length=MAX_LENGTH, description="Only files whose name or path matches this glob: *.py"
    )


@tool(Grep, read_only=True, needs_workspace=True)
def grep(args: Grep, context: ToolContext) -> str:
    """Return the matching lines of all text files under a path."""
    expression = _Expression(args.pattern)
    place = place_of(args.path, context)
    visited = Visited(_files_at(place, context), args.include)
    found = _matches(expression, visited, lambda path: shown(place.real / path, context))
    lines = list(islice(found, _MAX_MATCHES))
    notes = visited.notes
    if len(lines) == _MAX_MATCHES and next(found, None) is not None:
        notes = [f"(cut: the first {_MAX_MATCHES} matching lines; narrow the pattern, path or include)", *notes]
    if not lines:
        notes = [f"no line matches {args.pattern!r} under {args.path!r}", *notes]
    return "\n".join(lines + notes)


class _Expression:
    """An expression that is looked for line by line, but in many lines at once first: most hold it nowhere."""

    def __init__(self, pattern: str) -> None:
        self._in_line = compiled(pattern)
        self._in_lines = pattern_among_lines(pattern)
        self.most = _MAX_WORK // self._in_line.programsize
        """Bytes that are searched in one go."""

    def lines_in(self, text: bytes, files: "Visited") -> Iterator[tuple[int, bytes]]:
        """Yield the lines in which it is found, with their numbers; the time of ``files`` bounds it."""
        for first, block in _blocks(text, min(_BLOCK, self.most // 2)):
            if files.is_over:
                return
            if self._may_be_in(block):
                yield from self._found(block, first, files)

    def _may_be_in(self, block: bytes) -> bool:
        if self._in_lines is None or len(block) > self.most:
            return True
        return self._in_lines.search(block.replace(b"\r\n", b"\n").removesuffix(b"\r")) is not None

    def _found(self, block: bytes, first: int, files: "Visited") -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(block.split(b"\n"), first):
            if number % _LINES_A_LOOK == 0 and files.is_over:
                return
            if len(line) > self.most:
                files.note(f"lines were searched up to {self.most:,} bytes")
            if self._in_line.search(line.removesuffix(b"\r")[: self.most]):
                yield number, line


class Visited:
    """The files of one search, up to a number and a time; afterwards ``notes`` says what was left out."""

    def __init__(self, files: Iterator[Found], include: str | None = None) -> None:
        self._files = files
        self._include = compiled(glob_expression(include), named=include) if include else None
        self._by_name = include is not None and "/" not in include
        self._until = time.monotonic() + _MAX_SECONDS
        self._left_out: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        """What was left out, line by line."""
        return list(self._left_out)

    def note(self, text: str) -> None:
        """Say what was left out, once."""
        self._left_out[f"({text})"] = None

    @property
    def is_over(self) -> bool:
        """Whether the time is over, which is noted."""
        if time.monotonic() > self._until:
            self.note(f"stopped after {_MAX_SECONDS:g} s; search a smaller folder, or for something simpler")
            return True
        return False

    def __iter__(self) -> Iterator[Found]:
        for file in islice(self._files, _MAX_VISITED):
            if self.is_over:
                return
            if self._is_included(file):
                yield file
        if next(self._files, None) is not None:
            self.note(f"only the first {_MAX_VISITED:,} files were looked at; search a smaller folder")

    def _is_included(self, file: Found) -> bool:
        if self._include is None:
            return True
        return self._include.search(encoded(file.name if self._by_name else file.path or file.name)) is not None


def _files_at(place: Place, context: ToolContext) -> Iterator[Found]:
    """Yield the file at ``place``, or those below the folder there."""
    status = place.status()
    if status is None or stat.S_ISDIR(status.st_mode):
        with opened_folder(place, context):  # which says what else is there
            yield from files_under(place)
        return
    with open_file(place, context), folder_held(place.root) as root, folder_below(root, place.names[:-1]) as folder:
        yield Found(folder, place.names[-1], "")


def _matches(expression: _Expression, files: Visited, named: Callable[[str], str]) -> Iterator[str]:
    for file in files:
        text = text_of(file)
        for number, line in expression.lines_in(text.utf8, files) if text else ():
            yield f"{named(file.path)}:{number}:{_cut(line.decode(errors='replace').removesuffix(chr(13)))}"


def _blocks(text: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Cut a text at ends of lines into blocks of little more than ``size``, each with the number of its first line."""
    number, start = 1, 0
    while start <= len(text):
        end = text.find(b"\n", start + size)
        block = text[start : end if end >= 0 else None]
        yield number, block
        number += block.count(b"\n") + 1
        start += len(block) + 1


def text_of(file: Found) -> TextFile | None:
    """Return the text of ``file``, or None for what a search passes over: links, pipes, binary, huge, unreadable."""
    try:
        opened = open_regular(file.folder, file.name)
    except OSError:
        return None
    try:
        return TextFile.decode(read_all(opened, MAX_BYTES)) if os.fstat(opened).st_size <= MAX_BYTES else None
    except OSError:
        return None
    finally:
        os.close(opened)


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]} (cut)"


def encoded(name: str) -> bytes:
    """Return a name as patterns read it: RE2 finds nothing in bytes that are no UTF-8."""
    return printable(name).encode()
