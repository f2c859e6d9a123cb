"""An agent's plan, for the model: ``write_todos``."""

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.shared.todos import Todo, listed
from ekiden.workers.tools.base import ToolContext, ToolOutput, tool

__all__ = ["write_todos"]


class WriteTodos(BaseModel):
    """Keep the list of steps of a long task: the user, and the agents after you, see what is done and what is not.

    Use it for work of several steps: something new from the ground up, a refactoring, a change of several files. Do not
    use it for what takes two steps or fewer, for an edit of a single file, or for running tests and mending until they
    pass.

    How to: decide by the request whether a list is worth it. Mark a step in_progress before you begin it, one at a
    time, and completed as soon as it is done; cancelled when it is not needed any more. Change the list as you learn:
    add, split and drop steps. Update it at once, never several steps together afterwards. Each call replaces the whole
    list.
    """

    todos: list[Todo] = Field(description="The whole list, in order; empty: there is none any more.", max_length=100)


@tool(WriteTodos, idempotent=True, risk="safe")
def write_todos(args: WriteTodos, context: ToolContext) -> ToolOutput:
    """Keep the list as the call's result: the journal has it then, whoever goes on with the job."""
    running = [number for number, todo in enumerate(args.todos, 1) if todo.status == "in_progress"]
    if len(running) > 1:
        steps = ", ".join(map(str, running))
        raise ToolError(f"not kept: steps {steps} are in_progress, one at most may be. Mark the others pending")
    data = {"todos": [todo.model_dump() for todo in args.todos]}
    return ToolOutput(f"The list is now:\n{listed(args.todos)}" if args.todos else "The list is empty now.", data)
