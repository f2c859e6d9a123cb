"""Session variables, for the model: ``set_state``."""

from typing import Any

from pydantic import BaseModel, Field

from ekiden.workers.tools.base import ToolContext, tool

__all__ = ["set_state"]


class SetState(BaseModel):
    """Note facts of this conversation as variables, for the agents that come after you and for later requests."""

    values: dict[str, Any] = Field(description="Names and values (JSON); null takes a variable away.")


@tool(SetState, idempotent=True, risk="safe")
def set_state(args: SetState, context: ToolContext) -> str:
    """Write session variables."""
    for name, value in args.values.items():
        context.state.set(name, value)
    return f"noted: {', '.join(args.values) or 'nothing'}"
