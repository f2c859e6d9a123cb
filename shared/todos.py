"""An agent's plan: the list that it keeps with ``write_todos``, and that stands in the journal as the call's result."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ekiden.shared.records import Record, ToolFinished

__all__ = ["WRITE_TODOS", "Todo", "listed", "todos_in", "todos_of"]

WRITE_TODOS = "write_todos"
"""The tool's name."""
TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]


class Todo(BaseModel):
    """One step of a plan."""

    model_config = ConfigDict(frozen=True)

    description: str = Field(description="What is to be done, in a few words.", min_length=1, max_length=1_000)
    status: TodoStatus = Field(description="How it stands; one step at most is in_progress.")

    @field_validator("description")
    @classmethod
    def _one_line(cls, text: str) -> str:
        if not (line := " ".join(text.split())):
            raise ValueError("it is empty")
        return line


def listed(todos: Sequence[Todo]) -> str:
    """Return the plan as people and models read it: a line each, ``1. [pending] find the cause``."""
    return "\n".join(f"{number}. [{todo.status}] {todo.description}" for number, todo in enumerate(todos, 1))


def todos_of(record: Record) -> tuple[Todo, ...] | None:
    """Return the plan that a record leaves behind; None: it changes none."""
    if not isinstance(record, ToolFinished) or record.result.name != WRITE_TODOS or record.result.is_error:
        return None
    data: Any = record.result.data
    try:
        return tuple(Todo.model_validate(one) for one in data["todos"])
    except (ValidationError, KeyError, TypeError):  # another package's tool of that name
        return None


def todos_in(newest_first: Iterable[Record]) -> tuple[Todo, ...]:
    """Return the plan as it stands; empty: there is none."""
    return next((todos for todos in map(todos_of, newest_first) if todos is not None), ())
