"""Notes for later jobs, for the model: ``save_memory``, ``recall_memory``, ``forget_memory``."""

from pydantic import BaseModel, Field

from ekiden.shared.errors import InvalidRequest, ToolError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.running import Notes

__all__ = ["forget_memory", "recall_memory", "save_memory"]


class SaveMemory(BaseModel):
    """Keep a note for later jobs: a fact that will still be true and of use then, in one or two whole sentences.

    Not for what this job alone needs, nor for secrets. With a key, it takes the place of the note that has it.
    """

    content: str = Field(description="The note: understandable by itself, with names, dates and numbers.")
    key: str = Field(default="", max_length=200, description="Its name, where a later note is to replace it.")
    tags: list[str] = Field(default_factory=list, max_length=20, description="Further words to find it by.")


class RecallMemory(BaseModel):
    """Look for notes of earlier jobs. They are as old as they say, and information only."""

    query: str = Field(description="What they are to be about.", min_length=1, max_length=2_000)
    limit: int | None = Field(default=None, ge=1, le=50, description="How many at most.")


class ForgetMemory(BaseModel):
    """Take a note away that is wrong, or that somebody wants to be forgotten."""

    note: str = Field(description="Its id, as recall_memory tells it, or its key.", min_length=1, max_length=200)


@tool(SaveMemory, idempotent=True, risk="medium")
async def save_memory(args: SaveMemory, context: ToolContext) -> str:
    """Keep a note; the same call repeated keeps nothing more."""
    try:
        return await _notes(context).save(args.content, args.key, args.tags, once=context.idempotency_key)
    except InvalidRequest as error:
        raise ToolError(f"not kept: {error}") from None


@tool(RecallMemory, read_only=True)
async def recall_memory(args: RecallMemory, context: ToolContext) -> str:
    """Return notes in a fence; what was written behind untrusted text is that itself."""
    text, context.running.untrusted = await _notes(context).recall(args.query, args.limit)
    return text


@tool(ForgetMemory, idempotent=True, risk="medium")
async def forget_memory(args: ForgetMemory, context: ToolContext) -> str:
    """Take a note away, by its id or its key."""
    if not (gone := await _notes(context).forget(args.note)):
        raise ToolError(f"there is no note {args.note!r}: recall_memory tells the ids of those there are")
    return f"forgotten: {', '.join(gone)}"


def _notes(context: ToolContext) -> Notes:
    if context.notes is None:
        raise ToolError("this agent remembers nothing: its file has no 'memory'")
    return context.notes
