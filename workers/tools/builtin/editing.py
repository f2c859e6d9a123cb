"""Changing files: ``edit_file``."""

import stat
from bisect import bisect_left
from functools import cache
from itertools import accumulate

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.diff import short_difference
from ekiden.workers.tools.builtin.edit_correction import corrected
from ekiden.workers.tools.builtin.edit_hints import why_ambiguous, why_missing
from ekiden.workers.tools.builtin.paths import Place, place_of, require_writable, shown
from ekiden.workers.tools.builtin.text_file import MAX_BYTES, TextFile, line_end, read_text, write_text

__all__ = ["edit_file"]

_MAX_PLACES = 1_000_000
"""Occurrences of a text that is to be replaced."""

_Span = tuple[int, int]
"""Where a text begins and ends."""


class EditFile(BaseModel):
    """Replace an exact piece of a text file, or create a file by giving an empty ``old``."""

    path: str = Field(min_length=1, description="The file, relative to the job's folder.")
    old: str = Field(description="The text to replace, exactly as in the file, without line numbers; empty to create.")
    new: str = Field(description="The text to put in its place, or the whole text of a new file.")
    replace_all: bool = Field(default=False, description="Replace every occurrence; otherwise there must be just one.")


@tool(EditFile, needs_workspace=True, risk="low")
def edit_file(args: EditFile, context: ToolContext) -> str:
    """Replace text in a file, or create it, and return what changed as a diff."""
    place = place_of(args.path, context)
    require_writable(place, context)
    return _replace(place, args, context) if args.old else _create(place, args, context)


def _create(place: Place, args: EditFile, context: ToolContext) -> str:
    status = place.status()
    # An empty file may be filled: there is no text in it that `old` could name, and none to lose.
    if status is not None and not (stat.S_ISREG(status.st_mode) and status.st_size == 0):
        raise ToolError(f"{args.path!r} exists already: give the text to replace in 'old', or choose another path")
    write_text(place, TextFile(args.new), context)
    name = shown(place.real, context)
    return f"created {name}\n{short_difference('', args.new, name)}"


def _replace(place: Place, args: EditFile, context: ToolContext) -> str:
    before = read_text(place, context)
    found, new, note = _places(args.old, before.content), args.new, ""
    if not found and (meant := corrected(args.old, args.new, before.content)) is not None:
        found, new, note = [(meant.start, meant.end)], meant.new, f" (corrected: {meant.why})"
    _check(args, before, found)
    after = _replaced(before.content, found, new)
    if after == before.content:
        raise ToolError(f"nothing to change in {args.path!r}: 'old' and 'new' are the same text")
    write_text(place, before.with_content(after), context)
    name = shown(place.real, context)
    summary = f"edited {name}" if len(found) == 1 else f"edited {name}: {len(found)} replacements, the first of them:"
    return f"{summary}{note}\n{short_difference(before.content, _replaced(before.content, found[:1], new), name)}"


def _places(old: str, content: str) -> list[_Span]:
    r"""Find ``old`` literally, except that each of its line ends is found as ``\n`` and as ``\r\n``.

    By the search for plain texts, whose time is linear: an expression would go back at each line of a repetitive file,
    and nothing else would run in the process meanwhile.
    """
    wanted, text = (one.replace("\r\n", "\n") for one in (old, content))
    *before, _ = text.split(wanted, _MAX_PLACES + 1)
    spans = [(end - len(wanted), end) for end in accumulate(len(piece) + len(wanted) for piece in before)]
    if len(text) == len(content):
        return spans
    ends = _wide_line_ends(content)
    return [(start + bisect_left(ends, start), end + bisect_left(ends, end)) for start, end in spans]


def _wide_line_ends(content: str) -> list[int]:
    r"""Return where each ``\r\n`` would stand if all of them were ``\n``."""
    ends: list[int] = []
    at = content.find("\r\n")
    while at >= 0:
        ends.append(at - len(ends))
        at = content.find("\r\n", at + 2)
    return ends


def _replaced(content: str, spans: list[_Span], new: str) -> str:
    """Put ``new`` at the ``spans``, with the line ends of what stands there, or else those of the file."""
    default, text = line_end(content), new.replace("\r\n", "\n")
    put = cache(lambda old: text.replace("\n", line_end(old, default)))
    pieces, last = [], 0
    for start, end in spans:
        pieces += [content[last:start], put(content[start:end])]
        last = end
    return "".join([*pieces, content[last:]])


def _check(args: EditFile, before: TextFile, found: list[_Span]) -> None:
    if not found:
        raise ToolError(why_missing(args.path, args.old, before))
    if len(found) > 1 and not args.replace_all:
        raise ToolError(why_ambiguous(args.path, before, [start for start, _ in found]))
    if len(found) > _MAX_PLACES or len(before.content) + len(found) * len(args.new) > MAX_BYTES:
        raise ToolError(
            f"too much to replace in {args.path!r}: at most {_MAX_PLACES:,} places, and {MAX_BYTES:,} characters "
            "afterwards. Do it with bash"
        )
    if not (before.is_clean or args.new.isascii()):
        raise ToolError(
            f"{args.path!r} is not valid UTF-8, so only ASCII text can be put into it safely: "
            "convert the file first, or write the text with ASCII escapes"
        )
