"""Finding files and lines: ``glob`` and ``grep``."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, Field

from shared.errors import ToolError
from shared.patterns import MAX_LENGTH, Pattern
from workers.tools.base import ToolContext, tool
from workers.tools.builtin.paths import explained, file_at, files_under, folder_at, inside, shown
from workers.tools.builtin.patterns import compiled, glob_expression
from workers.tools.builtin.textfile import MAX_BYTES, TextFile

__all__ = ["glob", "grep"]

_MAX_PATHS = 500
_MAX_MATCHES = 500
_MAX_LINE_CHARS = 300
_MAX_VISITED = 50_000
"""Files that one search looks at: it holds a thread of the gate, and nothing can interrupt it."""
_MAX_SECONDS = 20.0
"""After which a search ends by itself, with what it has found."""
_MAX_WORK = 200_000_000
"""Bytes of one line times instructions of the pattern: two seconds at most."""


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
    folder = folder_at(args.path, context)
    visited = _Visited(folder)
    expression = compiled(glob_expression(args.pattern), named=args.pattern)
    found = [file for file in visited if expression.search(_relative(file, folder))]
    lines = sorted(shown(file, context) for file in found)
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
    expression = compiled(args.pattern)
    visited = _visited(args, context)
    found = _matches(expression, visited, context)
    lines = list(islice(found, _MAX_MATCHES))
    notes = visited.notes
    if len(lines) == _MAX_MATCHES and next(found, None) is not None:
        notes = [f"(cut: the first {_MAX_MATCHES} matching lines; narrow the pattern, path or include)", *notes]
    if not lines:
        notes = [f"no line matches {args.pattern!r} under {args.path!r}", *notes]
    return "\n".join(lines + notes)


class _Visited:
    """The files of one search, up to a number and a time; afterwards ``notes`` says what was left out."""

    def __init__(self, base: Path, include: str | None = None) -> None:
        self._base = base
        self._include = compiled(glob_expression(include), named=include) if include else None
        self._by_name = include is not None and "/" not in include
        self._until = time.monotonic() + _MAX_SECONDS
        self._left_out: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        return list(self._left_out)

    def note(self, text: str) -> None:
        self._left_out[f"({text})"] = None

    @property
    def is_over(self) -> bool:
        """Whether the time is over, which is noted."""
        if time.monotonic() > self._until:
            self.note(f"stopped after {_MAX_SECONDS:g} s; search a smaller folder, or for something simpler")
            return True
        return False

    def __iter__(self) -> Iterator[Path]:
        files = iter([self._base]) if self._base.is_file() else files_under(self._base)
        for file in islice(files, _MAX_VISITED):
            if self.is_over:
                return
            if self._is_included(file):
                yield file
        if next(files, None) is not None:
            self.note(f"only the first {_MAX_VISITED:,} files were looked at; search a smaller folder")

    def _is_included(self, file: Path) -> bool:
        if self._include is None:
            return True
        name = _encoded(file.name) if self._by_name else _relative(file, self._base)
        return self._include.search(name) is not None


def _visited(args: Grep, context: ToolContext) -> _Visited:
    real = inside(args.path, context)
    with explained(args.path):
        is_file = real.is_file()
    return _Visited(file_at(args.path, context) if is_file else folder_at(args.path, context), args.include)


def _matches(expression: Pattern, files: _Visited, context: ToolContext) -> Iterator[str]:
    most = _MAX_WORK // expression.programsize
    for file in files:
        text = _text_of(file)
        name = shown(file, context)
        for number, line in enumerate(text.utf8.split(b"\n") if text else (), 1):
            if number % _LINES_A_LOOK == 0 and files.is_over:
                return
            if len(line) > most:
                files.note(f"lines were searched up to {most:,} bytes")
            if expression.search(line.removesuffix(b"\r")[:most]):
                yield f"{name}:{number}:{_cut(line.decode(errors='replace').removesuffix(chr(13)))}"


def _text_of(file: Path) -> TextFile | None:
    """Return the text of ``file``, or None for what a search passes over: links, pipes, binary, huge, unreadable."""
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return TextFile.decode(file.read_bytes())
    except OSError:
        return None


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]} (cut)"


def _relative(file: Path, base: Path) -> bytes:
    return _encoded(file.relative_to(base).as_posix() if file != base else file.name)


def _encoded(name: str) -> bytes:
    return name.encode(errors="surrogateescape")
