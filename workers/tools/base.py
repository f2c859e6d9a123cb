"""What a tool is. To add one: a pydantic model of its arguments, a function, the decorator.

    class CountWords(BaseModel):
        \"\"\"Count the words of a text.\"\"\"          # what the model reads

        text: str = Field(description="The text.")

    @tool(CountWords, read_only=True)
    def count_words(args: CountWords, context: ToolContext) -> str:
        return str(len(args.text.split()))

``schema_tool`` makes one of a JSON Schema where there is no such model. A tool of this package is named in
``workers/tools/registry.py``, one of another package by an entry point or the settings (``shared/plugins.py``).
"""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ekiden.shared.errors import ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.risk import Risk
from ekiden.shared.schemas import check
from ekiden.shared.storable import storable
from ekiden.shared.stores.views import ToolView
from ekiden.shared.tool_processes import Lifetime
from ekiden.shared.variables import problem_of
from ekiden.shared.version import VERSION
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.parsing import Parse, by_model, by_schema
from ekiden.workers.tools.protected_paths import Protected

__all__ = ["OWN", "StateView", "Tool", "ToolContext", "ToolOutput", "schema_tool", "tool"]

OWN = "ekiden"
"""The distribution of the tools that come with Ekiden."""
_MOST_VARIABLES = 200

A = TypeVar("A")
M = TypeVar("M", bound=BaseModel)


class StateView:
    """The session's variables for one tool call; what it writes counts once its leg is committed, if it succeeds."""

    def __init__(self, variables: Mapping[str, Any] | None = None) -> None:
        self._variables = dict(variables or {})
        self.changes: dict[str, Any] = {}
        """What was written; None: taken away."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable's value: JSON."""
        return self._present().get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Write a variable; None takes it away. Raises ``ToolError`` for a name or a value that cannot be kept."""
        if (problem := problem_of(name, value)) is not None:
            raise ToolError(problem)
        if value is not None and len(self._present().keys() | {name}) > _MOST_VARIABLES:
            raise ToolError(f"a session has {_MOST_VARIABLES} variables at most: take one away first")
        self.changes[name] = storable(value)

    def _present(self) -> dict[str, Any]:
        return {name: value for name, value in (self._variables | self.changes).items() if value is not None}


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
    sandbox: Sandbox = OFF
    """What confines the programs that the tool starts."""
    network: bool | None = None
    """Whether these may reach a network: the agent's file says so, and those of all who delegated the job to it."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, different for any other call."""
        return f"{self.job}:{self.leg}:{self.call_id}"


@dataclass(frozen=True)
class ToolOutput:
    """What a tool gives back that has more than a text."""

    text: str = ""
    """For the model; empty: it reads the data as JSON."""
    data: Any = None
    """The same for programs: JSON, kept in the journal."""


Function = Callable[[A, ToolContext], str | ToolOutput | Awaitable[str | ToolOutput]]


@dataclass(frozen=True)
class Tool:
    """A function that a model may call, with what the relay must know of its effects."""

    spec: ToolSpec
    parse: Parse
    """Makes of a call's arguments what the function takes."""
    function: Callable[[Any, ToolContext], str | ToolOutput | Awaitable[str | ToolOutput]]
    read_only: bool = False
    """No effects: may run again, may run beside other calls of the turn."""
    idempotent: bool = False
    """Running it again with the same idempotency key has no further effect."""
    needs_workspace: bool = False
    """Acts on files: offered only by workers with a workspace root."""
    untrusted: bool = False
    """Returns text whose author nobody vouches for: of the web, of another's server."""
    package: str = OWN
    """The distribution that it came with."""
    version: str = VERSION
    risk: Risk = "medium"
    timeout_s: float | None = None
    """Seconds until a call is given up; None: the tool limits itself."""
    starts_commands: bool = False
    """Starts programs that a model names: not offered where ``tools.sandbox`` requires a sandbox and there is none."""

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

    @cached_property
    def view(self) -> ToolView:
        """What a worker announces of it."""
        told = json.dumps(self.spec.model_dump(mode="json"), sort_keys=True).encode()
        return ToolView(
            self.name,
            hashlib.sha256(told).hexdigest()[:16],
            self.package,
            self.version,
            read_only=self.read_only,
            idempotent=self.idempotent,
            untrusted=self.untrusted,
            risk=self.risk,
        )


def tool(
    arguments: type[M],
    *,
    read_only: bool = False,
    idempotent: bool = False,
    needs_workspace: bool = False,
    untrusted: bool = False,
    risk: Risk | None = None,
    timeout_s: float | None = None,
    starts_commands: bool = False,
) -> Callable[[Function[M]], Tool]:
    """Turn a function into a tool named after it; ``arguments``' docstring is what the model reads.

    The function returns the text for the model (``ToolOutput``: with data) and raises ``ToolError`` with a text that
    helps the model mend its call.
    """

    def wrap(function: Function[M]) -> Tool:
        schema = arguments.model_json_schema()
        name = getattr(function, "__name__", "")
        spec = ToolSpec(
            name=name,
            description=inspect.cleandoc(arguments.__doc__ or ""),
            parameters={key: value for key, value in schema.items() if key not in ("title", "description")},
        )
        parse = by_model(name, arguments)
        level = risk or ("safe" if read_only and not untrusted else "medium")
        return Tool(
            spec,
            parse,
            function,
            read_only,
            idempotent,
            needs_workspace,
            untrusted,
            risk=level,
            timeout_s=timeout_s,
            starts_commands=starts_commands,
        )

    return wrap


def schema_tool(
    spec: ToolSpec,
    *,
    read_only: bool = False,
    idempotent: bool = False,
    needs_workspace: bool = False,
    untrusted: bool = False,
    risk: Risk | None = None,
    timeout_s: float | None = None,
) -> Callable[[Function[dict[str, Any]]], Tool]:
    """Turn a function into the tool that ``spec`` describes: it takes the arguments as JSON, checked by the schema.

    Raises ``DefinitionError`` for a schema that cannot be checked; see ``shared.schemas.check``.
    """
    check(spec.parameters)

    def wrap(function: Function[dict[str, Any]]) -> Tool:
        parse = by_schema(spec.name, spec.parameters)
        level = risk or ("safe" if read_only and not untrusted else "medium")
        return Tool(
            spec,
            parse,
            function,
            read_only,
            idempotent,
            needs_workspace,
            untrusted,
            risk=level,
            timeout_s=timeout_s,
        )

    return wrap
