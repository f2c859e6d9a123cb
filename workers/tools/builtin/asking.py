"""Asking the user: ``ask_user``."""

from typing import Annotated

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext, tool

__all__ = ["AskUser", "ask_user"]


class AskUser(BaseModel):
    """Ask the user a question and wait for the answer. Ask only what you cannot find out yourself."""

    question: str = Field(description="The question, and what one must know for it.", min_length=1, max_length=8_000)
    choices: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default=[], description="The answers to choose from; none: any text.", max_length=50
    )


@tool(AskUser, risk="safe")
def ask_user(args: AskUser, context: ToolContext) -> str:
    """Refuse: a question suspends its leg, which is no tool's to do (``workers/calls/questions.py``)."""
    raise ToolError("a question is asked between turns: this call was not taken as one")
