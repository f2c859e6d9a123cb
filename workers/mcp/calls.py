"""One call of a server, for the agent that makes it: goes on with an answer, shows progress, keeps what is no text."""

from collections.abc import Awaitable, Callable
from mimetypes import guess_extension
from typing import Any

from ekiden.shared.errors import OutcomeUnknown, ToolError
from ekiden.workers.mcp.failures import McpFailure, StateRefused, Unanswered
from ekiden.workers.tools.base import Answered, ToolContext, ToolOutput

__all__ = ["carried_out", "shown_by"]


async def carried_out(server: str, ask: Callable[..., Awaitable[Any]], context: ToolContext) -> ToolOutput:
    """Return what a server gives back.

    Args:
        server: Its name.
        ask: Asks it; takes ``answers`` and ``state`` where the call goes on.
        context: Of the call.

    Raises:
        ToolError: it gives nothing, or says that it failed.
        ToolQuestion: it asks a person.
    """
    try:
        try:
            result = await ask(**_answers(context.answered))
        except StateRefused:  # it has forgotten what it asked: it is to ask anew
            result = await ask()
    except Unanswered as error:
        raise OutcomeUnknown(str(error)) from None
    except McpFailure as error:
        raise ToolError(str(error)) from None
    return _output_of(server, result, context)


def shown_by(context: ToolContext) -> Callable[[float, float | None, str | None], None]:
    """Return what shows those who follow the job how far a server says that it is."""

    def show(done: float, total: float | None, message: str | None) -> None:
        if total:
            context.progress(min(1.0, max(0.0, done / total)), message or "")
        elif message:
            context.write(f"{message}\n")

    return show


def _answers(answered: Answered | None) -> dict[str, Any]:
    """Return what a call goes on with."""
    if answered is None:
        return {}
    from ekiden.workers.mcp.questions import answers_of

    answers, state = answers_of(answered)
    return {"answers": answers, "state": state}


def _output_of(server: str, result: Any, context: ToolContext) -> ToolOutput:
    from ekiden.workers.mcp.questions import question_of
    from ekiden.workers.mcp.results import is_question, output_of

    if is_question(result):
        raise question_of(server, result)

    def keep(name: str, data: bytes, kind: str) -> str:
        file = f"{name}{guess_extension(kind) or ''}"
        context.artifact(file, data, kind)
        return f"[{file}, {kind}, {len(data):,} bytes]"

    return output_of(result, keep)
