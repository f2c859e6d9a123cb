"""Session variables, for the model: ``set_state``."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import Tool, ToolContext, tool

__all__ = ["set_state", "set_state_of"]


class SetState(BaseModel):
    """Note facts of this conversation as variables, for the agents that come after you and for later requests."""

    values: dict[str, Any] = Field(description="Names and values (JSON); null takes a variable away.")


@tool(SetState, idempotent=True, risk="safe")
def set_state(args: SetState, context: ToolContext) -> str:
    """Write session variables."""
    for name, value in args.values.items():
        context.state.set(name, value)
    return f"noted: {', '.join(args.values) or 'nothing'}"


def set_state_of(names: Collection[str]) -> Tool:
    """Return the tool for an agent that may write these variables, and no others."""

    def write(args: SetState, context: ToolContext) -> str:
        if others := [name for name in args.values if name not in names]:
            raise ToolError(f"not noted: {others[0]!r} is none of your variables, which are {', '.join(names)}")
        return set_state.function(args, context)  # type: ignore[return-value]  # no coroutine function

    described = f"{set_state.spec.description}\n\nYours are {', '.join(names)}."
    return replace(set_state, spec=set_state.spec.model_copy(update={"description": described}), function=write)
