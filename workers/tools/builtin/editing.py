"""Changing files: ``edit_file``."""

import re

from pydantic import BaseModel, Field

from shared.errors import ToolError
from workers.tools.base import ToolContext, tool
from workers.tools.builtin.difference import short_difference
from workers.tools.builtin.mismatch import why_ambiguous, why_missing
from workers.tools.builtin.paths import explained, file_at, inside, shown
from workers.tools.builtin.textfile import TextFile, line_end, read_text, write_text

__all__ = ["edit_file"]


class EditFile(BaseModel):
    """Replace an exact piece of a text file, or create a file by giving an empty ``old``."""

    path: str = Field(min_length=1, description="The file, relative to the job's folder.")
    old: str = Field(description="The text to replace, exactly as in the file, without line numbers; empty to create.")
    new: str = Field(description="The text to put in its place, or the whole text of a new file.")
    replace_all: bool = Field(default=False, description="Replace every occurrence; otherwise there must be just one.")


@tool(EditFile, needs_workspace=True)
def edit_file(args: EditFile, context: ToolContext) -> str:
    """Replace text in a file, or create it, and return what changed as a diff."""
    return _replace(args, context) if args.old else _create(args, context)


def _create(args: EditFile, context: ToolContext) -> str:
    real = inside(args.path, context)
    # An empty file may be filled: there is no text in it that `old` could name, and none to lose.
    with explained(args.path):
        is_free = not real.exists() or (real.is_file() and real.stat().st_size == 0)
    if not is_free:
        raise ToolError(f"{args.path!r} exists already: give the text to replace in 'old', or choose another path")
    write_text(real, TextFile(args.new), args.path)
    name = shown(real, context)
    return f"created {name}\n{short_difference('', args.new, name)}"


def _replace(args: EditFile, context: ToolContext) -> str:
    real = file_at(args.path, context)
    before = read_text(real, args.path)
    expression = _expression(args.old)
    found = list(expression.finditer(before.content))
    _check(args, before, found)
    end = line_end(before.content)
    after = expression.sub(lambda match: _replacement(args.new, match, end), before.content)
    if after == before.content:
        raise ToolError(f"nothing to change in {args.path!r}: 'old' and 'new' are the same text")
    write_text(real, before.with_content(after), args.path)
    name = shown(real, context)
    first = expression.sub(lambda match: _replacement(args.new, match, end), before.content, count=1)
    summary = f"edited {name}" if len(found) == 1 else f"edited {name}: {len(found)} replacements, the first of them:"
    return f"{summary}\n{short_difference(before.content, first, name)}"


def _expression(old: str) -> re.Pattern[str]:
    r"""Match ``old`` literally, except that each of its line ends matches ``\n`` and ``\r\n``."""
    return re.compile(r"\r?\n".join(re.escape(line) for line in old.replace("\r\n", "\n").split("\n")))


def _replacement(new: str, match: re.Match[str], default: str) -> str:
    """Give ``new`` the line ends of the text that it replaces, or else those of its file."""
    return new.replace("\r\n", "\n").replace("\n", line_end(match.group(), default))


def _check(args: EditFile, before: TextFile, found: list[re.Match[str]]) -> None:
    if not found:
        raise ToolError(why_missing(args.path, args.old, before))
    if len(found) > 1 and not args.replace_all:
        raise ToolError(why_ambiguous(args.path, before, [match.start() for match in found]))
    if not (before.is_clean or args.new.isascii()):
        raise ToolError(
            f"{args.path!r} is not valid UTF-8, so only ASCII text can be put into it safely: "
            "convert the file first, or write the text with ASCII escapes"
        )
