"""Reading, in pages, what was too long to be given at once: ``read_output``."""

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext, tool

__all__ = ["read_output"]

_PAGE = 20_000


class ReadOutput(BaseModel):
    """Read what a result of this job refers to: the whole of one that was cut, or an artifact that is text."""

    ref: str = Field(description="The reference, as the result gives it.")
    offset: int = Field(default=0, ge=0, description="The first character to read, counted from 0.")
    limit: int = Field(default=_PAGE, ge=1, le=_PAGE, description="How many characters to read at most.")


@tool(ReadOutput, read_only=True, risk="safe")
async def read_output(args: ReadOutput, context: ToolContext) -> str:
    """Return a page of it, and say where the next one begins."""
    whole = await context.outputs.read(args.ref) if context.outputs else None
    if whole is None:
        raise ToolError(f"nothing is kept under {args.ref!r:.80}: take a reference from a result of this job")
    if isinstance(whole, bytes):
        raise ToolError(f"what is kept under {args.ref!r} is no text ({len(whole):,} bytes)")
    if args.offset >= len(whole):
        raise ToolError(f"it has {len(whole):,} characters, expected an offset below that, not {args.offset}")
    end = min(args.offset + args.limit, len(whole))
    more = f"; go on with offset={end}" if end < len(whole) else ""
    return f"{whole[args.offset : end]}\n(characters {args.offset:,} to {end:,} of {len(whole):,}{more})"
