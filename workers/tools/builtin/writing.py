"""Whole files: ``write_file`` and ``delete_file``."""

import os
import stat

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.diff import short_difference
from ekiden.workers.tools.builtin.paths import explained, place_of, require_writable, shown, writable_folder
from ekiden.workers.tools.builtin.text_file import MAX_BYTES, TextFile, read_text, write_text

__all__ = ["delete_file", "write_file"]


class WriteFile(BaseModel):
    """Write a whole text file: create it, or replace all that it holds. To change a part, use edit_file."""

    path: str = Field(min_length=1, description="The file, relative to the job's folder.")
    content: str = Field(description="The whole text.")


@tool(WriteFile, needs_workspace=True, risk="low")
def write_file(args: WriteFile, context: ToolContext) -> str:
    """Store the text, and return what changed as a diff; a text file keeps its encoding."""
    if len(args.content) > MAX_BYTES:
        raise ToolError(f"the text has {len(args.content):,} characters, at most {MAX_BYTES:,} are written")
    place = place_of(args.path, context)
    require_writable(place, context)
    before = read_text(place, context) if place.status() is not None else None
    name = shown(place.real, context)
    if before is not None and before.content == args.content:
        return f"{name} holds this text already"
    write_text(place, (before or TextFile("")).with_content(args.content), context)
    was = before.content if before else ""
    return f"{'wrote' if before else 'created'} {name}\n{short_difference(was, args.content, name)}"


class DeleteFile(BaseModel):
    """Delete one file. Folders are not deleted."""

    path: str = Field(min_length=1, description="The file, relative to the job's folder.")


@tool(DeleteFile, needs_workspace=True, risk="high")
def delete_file(args: DeleteFile, context: ToolContext) -> str:
    """Take a file away for good."""
    place = place_of(args.path, context)
    with explained(args.path):
        is_link = (context.cwd / args.path).is_symlink()
    if is_link:
        raise ToolError(f"{args.path!r} is a link to {shown(place.real, context)!r}: name the file itself")
    status = place.status()
    if status is None or not stat.S_ISREG(status.st_mode):
        what = "there is nothing" if status is None else "there is no regular file"
        raise ToolError(f"{what} at {args.path!r}: list the folder with ls")
    with writable_folder(place, context) as folder:
        os.unlink(place.names[-1], dir_fd=folder)
    return f"deleted {shown(place.real, context)}"
