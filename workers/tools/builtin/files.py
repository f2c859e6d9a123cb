"""Looking at files: ``ls`` and ``read_file``."""

import os

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.paths import opened_folder, place_of
from ekiden.workers.tools.builtin.text_file import lines_of, read_text

__all__ = ["ls", "read_file"]

_MAX_ENTRIES = 1_000
_MAX_LINE_CHARS = 2_000
_MAX_CHARS = 80_000
"""Of one answer: below the gate's cap, so that the note on how to go on is never lost."""


class Ls(BaseModel):
    """List a folder: one name per line, folders end in a slash."""

    path: str = Field(default=".", description="The folder, relative to the job's folder.")


@tool(Ls, read_only=True, needs_workspace=True)
def ls(args: Ls, context: ToolContext) -> str:
    """List the entries of a folder by name."""
    with opened_folder(place_of(args.path, context), context) as folder, os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
        lines = [_entry(folder, entry) for entry in entries[:_MAX_ENTRIES]]
    if not entries:
        return "(empty folder)"
    if len(entries) > _MAX_ENTRIES:
        lines.append(f"(cut: {_MAX_ENTRIES:,} of {len(entries):,} entries; narrow it with glob)")
    return "\n".join(lines)


class ReadFile(BaseModel):
    """Read a text file. Each line is preceded by its number and a tab, which are not part of the file."""

    path: str = Field(description="The file, relative to the job's folder.")
    offset: int = Field(default=1, ge=1, description="Number of the first line to read, counted from 1.")
    limit: int = Field(default=2_000, ge=1, description="How many lines to read at most.")


@tool(ReadFile, read_only=True, needs_workspace=True)
def read_file(args: ReadFile, context: ToolContext) -> str:
    """Return numbered lines of a text file, and say so when there are more."""
    text = read_text(place_of(args.path, context), context)
    lines = lines_of(text.printable)
    if not lines[-1]:
        lines.pop()
    if not lines:
        return "(empty file)"
    if args.offset > len(lines):
        raise ToolError(f"{args.path!r} has {len(lines):,} lines, expected an offset from 1 to that, not {args.offset}")
    shown = _numbered(lines[args.offset - 1 : args.offset - 1 + args.limit], args.offset)
    last = args.offset - 1 + len(shown)
    if last < len(lines):
        shown.append(f"(cut: lines {args.offset}-{last} of {len(lines):,}; go on with offset={last + 1})")
    if not text.is_clean:
        shown.append("(not valid UTF-8: \N{REPLACEMENT CHARACTER} stands for bytes that cannot be shown)")
    return "\n".join(shown)


def _entry(folder: int, entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name} -> {os.readlink(entry.name, dir_fd=folder)}"
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _numbered(lines: list[str], first: int) -> list[str]:
    """Number as many lines as fit into one answer, at least one."""
    shown: list[str] = []
    room = _MAX_CHARS
    for number, line in enumerate(lines, first):
        text = line[:_MAX_LINE_CHARS]
        if len(line) > _MAX_LINE_CHARS:
            text += f" (cut: the line has {len(line):,} characters)"
        room -= len(text) + 8
        if shown and room < 0:
            break
        shown.append(f"{number}\t{text}")
    return shown
