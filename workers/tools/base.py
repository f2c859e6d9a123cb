"""What a tool is. To add one: a pydantic model of its arguments, a function, the decorator.

    class CountWords(BaseModel):
        \"\"\"Count the words of a text.\"\"\"          # what the model reads

        text: str = Field(description="The text.")

    @tool(CountWords, read_only=True)
    def count_words(args: CountWords, context: ToolContext) -> str:
        return str(len(args.text.split()))

then name it in ``workers/tools/registry.py``.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ekiden.shared.errors import ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.storable import storable
from ekiden.shared.tool_processes import Lifetime
from ekiden.shared.variables import problem_of
from ekiden.workers.tools.protected_paths import Protected

__all__ = ["StateView", "Tool", "ToolContext", "tool"]

_MOST_VARIABLES = 200

A = TypeVar("A", bound=BaseModel)


class StateView:
    """The session's variables for one tool call; what it writes counts once the leg is committed."""

    def __init__(self, variables: Mapping[str, Any] | None = None) -> None:
        self._variables = dict(variables or {})
        self.changes: dict[str, Any] = {}
        """What was written; None: taken away."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable's value: JSON."""
        value = {**self._variables, **self.changes}.get(name)
        return default if value is None else value

    def set(self, name: str, value: Any) -> None:
        """Write a variable; None takes it away. Raises ``ToolError`` for a name or a value that cannot be kept."""
        if (problem := problem_of(name, value)) is not None:
            raise ToolError(problem)
        if value is not None and len({**self._variables, **self.changes} | {name: value}) > _MOST_VARIABLES:
            raise ToolError(f"a session has {_MOST_VARIABLES} variables at most: take one away first")
        self.changes[name] = storable(value)


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of the call it serves."""

    job: str
    leg: int
    agent: str
    call_id: str
    cwd: Path
    """The job's folder; relative paths start here. Lies inside ``root``."""
    root: Path
    """The worker's workspace root; file tools read and write nothing outside."""
    state: StateView = field(default_factory=StateView)
    env: Mapping[str, str] = field(default_factory=dict)
    """All that programs which the tool starts may see of the worker's environment."""
    lifetime: Lifetime | None = None
    """What processes that the tool starts must not outlive: the lease of its leg."""
    protected: Protected = field(default_factory=Protected)
    """What file tools may not change."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, different for any other call."""
        return f"{self.job}:{self.leg}:{self.call_id}"


@dataclass(frozen=True)
class Tool:
    """A function that a model may call, with what the relay must know of its effects."""

    spec: ToolSpec
    arguments: type[BaseModel]
    function: Callable[[Any, ToolContext], str | Awaitable[str]]
    read_only: bool = False
    """No effects: may run again, may run beside other calls of the turn."""
    idempotent: bool = False
    """Running it again with the same idempotency key has no further effect."""
    needs_workspace: bool = False
    """Acts on files: offered only by workers with a workspace root."""
    untrusted: bool = False
    """Returns text whose author nobody vouches for: of the web, of another's server."""

    @property
    def name(self) -> str:
        """The name that agent files and models use."""
        return self.spec.name

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; others run in a thread."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def may_repeat(self) -> bool:
        """Whether a call that was started and never answered may be run again."""
        return self.read_only or self.idempotent


def tool(
    arguments: type[A],
    *,
    read_only: bool = False,
    idempotent: bool = False,
    needs_workspace: bool = False,
    untrusted: bool = False,
) -> Callable[[Callable[[A, ToolContext], str | Awaitable[str]]], Tool]:
    """Turn a function into a tool named after it; ``arguments``' docstring is what the model reads.

    The function returns the text for the model and raises ``ToolError`` with a text that helps the model mend its call.
    """

    def wrap(function: Callable[[A, ToolContext], str | Awaitable[str]]) -> Tool:
        schema = arguments.model_json_schema()
        spec = ToolSpec(
            name=function.__name__,
            description=inspect.cleandoc(arguments.__doc__ or ""),
            parameters={key: value for key, value in schema.items() if key not in ("title", "description")},
        )
        return Tool(spec, arguments, function, read_only, idempotent, needs_workspace, untrusted)

    return wrap
