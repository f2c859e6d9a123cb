"""What a tool is. To add one: a typed function, and the decorator.

    @tool(read_only=True)
    def count_words(text: str) -> str:
        \"\"\"Count the words of a text.              # what the model reads

Args:
            text: The text.
        \"\"\"
        return str(len(text.split()))

``tool(Model)`` takes a model of the arguments instead, ``schema_tool`` a JSON Schema. A tool of this package is named
in ``workers/tools/registry.py``, one of another package by an entry point or the settings (``shared/plugins.py``).
"""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel

from ekiden.shared.errors import DefinitionError, ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.processes.tools import Lifetime
from ekiden.shared.risk import RISKS, Risk
from ekiden.shared.schemas import check
from ekiden.shared.storable import storable
from ekiden.shared.stores.views import ToolView
from ekiden.shared.variables import problem_of
from ekiden.shared.version import VERSION
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.parsing import Parse, by_model, by_schema
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.running import Notes, Outputs, Running
from ekiden.workers.tools.typed_functions import typed

__all__ = ["OWN", "Answered", "StateView", "Tool", "ToolContext", "ToolOutput", "ToolQuestion", "schema_tool", "tool"]

OWN = "ekiden"
"""The distribution of the tools that come with Ekiden."""
_MOST_VARIABLES = 200
_MOST_TOLD = 20_000
"""Bytes of what models are told of a tool whose schema workers announce, again and again."""

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


class ToolQuestion(Exception):  # no error: the call goes on with the answer
    """Raised by a tool that needs an answer of a person: its leg waits without a worker, then it is called again."""

    def __init__(self, text: str, choices: tuple[str, ...] = (), state: str = "") -> None:
        """``choices``: what may be answered; empty: any text. ``state``: comes back with the answer."""
        super().__init__(text)
        self.text = text
        self.choices = choices
        self.state = state


@dataclass(frozen=True)
class Answered:
    """What became of a tool's question."""

    state: str
    status: Literal["answered", "denied", "expired"]
    """``denied``: the person does not answer; ``expired``: nobody did in time."""
    text: str = ""


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
    outputs: Outputs | None = None
    """Where artifacts, and what is too long for a model, are kept; None: nowhere."""
    notes: Notes | None = None
    """The agent's notes of earlier jobs; None: it remembers nothing."""
    private_hosts: frozenset[str] = frozenset()
    """``HOST:PORT`` of private networks that tools may ask all the same."""
    running: Running = field(default_factory=Running)
    """What the call shares with whoever runs it."""
    sandbox: Sandbox = OFF
    """What confines the programs that the tool starts."""
    network: bool | None = None
    """Whether these may reach a network: the agent's file says so, and those of all who delegated the job to it."""
    answered: Answered | None = None
    """What was said to the question that the call asked when it ran before, if it did."""
    key: str = ""
    """The idempotency key of the call that this one repeats; empty: it has one of its own."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: a tool in a thread should end then, nothing else ends it."""
        return self.running.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Raise ``ToolError`` if nobody waits for the result any more."""
        if self.cancelled:
            raise ToolError("the call was cancelled")

    def progress(self, fraction: float, text: str = "") -> None:
        """Show those who follow the job how far the call has come: from 0 to 1. Never in the journal."""
        self.running.progress(fraction, text)

    def write(self, text: str) -> None:
        """Show those who follow the job what the tool says while it runs; not the model, and never in the journal."""
        self.running.write(text)

    def artifact(self, name: str, content: str | bytes, mime: str = "") -> None:
        """Keep a file with the result, which names it; ``ekiden job artifacts`` writes it out.

        Args:
            name: Of the file, without folders.
            content: A text, or bytes.
            mime: Its type; empty: by the ending of its name.

        Raises:
            ToolError: too many, too large, or no name for a file.
        """
        self.running.artifact(name, content, mime)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, different for any other call."""
        return self.key or f"{self.job}:{self.leg}:{self.call_id}"


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
    """Seconds until a call is given up; None: as the setting ``tools.timeout_s`` says."""
    max_chars: int = 100_000
    """Of its result, what a model is given at once; the rest is kept, and read in pages."""
    full_name: str = ""
    """What files and rules call it, where models need another name: ``mcp.<server>.<tool>``."""
    starts_commands: bool = False
    """Starts programs that a model names: not offered where ``tools.sandbox`` requires a sandbox and there is none."""

    stands_for: Callable[[Mapping[str, Any]], "Tool | None"] | None = None
    """Which of several tools a call of it is, by the call's arguments: rules and approvals mean that one."""

    def meant_by(self, args: Mapping[str, Any]) -> "Tool":
        """Return the tool that a call with these arguments is."""
        return (self.stands_for(args) if self.stands_for else None) or self

    @property
    def name(self) -> str:
        """The name that agent files and models use."""
        return self.spec.name

    @property
    def rule_name(self) -> str:
        """The name that files, rules and people use."""
        return self.full_name or self.name

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
            parameters={} if self.package == OWN or len(told) > _MOST_TOLD else self.spec.parameters,
        )


class Options(TypedDict, total=False):
    """What may be said of a tool beside what it does: see ``Tool``."""

    read_only: bool
    idempotent: bool
    needs_workspace: bool
    untrusted: bool
    risk: Risk | None
    timeout_s: float | None
    max_chars: int
    starts_commands: bool


@overload
def tool(arguments: type[M], **options: Unpack[Options]) -> Callable[[Function[M]], Tool]: ...


@overload
def tool(arguments: None = None, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]: ...


@overload
def tool(arguments: Callable[..., Any], **options: Unpack[Options]) -> Tool: ...


def tool(arguments: Any = None, **options: Unpack[Options]) -> Any:
    """Turn a function into a tool named after it.

    ``@tool`` and ``@tool(risk="low")`` take a typed function: its arguments are what a model gives, its docstring says
    what it does, and a parameter of the type ``ToolContext``, if there is one, gets the context. ``@tool(Model)`` takes
    a function of an object of ``Model``, whose docstring is what models read, and a context.

    The function returns the text for the model (``ToolOutput``: with data) and raises ``ToolError`` with a text that
    helps the model mend its call.

    Raises:
        DefinitionError: the function cannot be a tool, or an option has no such value; says what to write.
    """
    if arguments is None:
        return lambda function: _of_function(function, options)
    if isinstance(arguments, type) and issubclass(arguments, BaseModel):
        return lambda function: _of_model(arguments, function, options)
    if inspect.isroutine(arguments):
        return _of_function(arguments, options)
    raise DefinitionError(f"@tool takes a function, or a model of its arguments, not {arguments!r:.80}")


def schema_tool(spec: ToolSpec, **options: Unpack[Options]) -> Callable[[Function[dict[str, Any]]], Tool]:
    """Turn a function into the tool that ``spec`` describes: it takes the arguments as JSON, checked by the schema.

    Raises ``DefinitionError`` for a schema that cannot be checked; see ``shared.schemas.check``.
    """
    check(spec.parameters)
    return lambda function: _made(spec, by_schema(spec.name, spec.parameters), function, options)


def _of_function(function: Callable[..., Any], options: Options) -> Tool:
    found = typed(function, ToolContext, (str, ToolOutput))
    name = function.__name__
    spec = _spec(name, found.description, found.arguments)
    return _made(spec, by_model(name, found.arguments), found.as_tool, options)


def _of_model(arguments: type[BaseModel], function: Function[Any], options: Options) -> Tool:
    name = getattr(function, "__name__", "")
    spec = _spec(name, inspect.cleandoc(arguments.__doc__ or ""), arguments)
    return _made(spec, by_model(name, arguments), function, options)


def _spec(name: str, description: str, arguments: type[BaseModel]) -> ToolSpec:
    schema = arguments.model_json_schema()
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return ToolSpec(name=name, description=description, parameters=parameters)


def _made(spec: ToolSpec, parse: Parse, function: Function[Any], options: Options) -> Tool:
    reads = options.get("read_only", False) and not options.get("untrusted", False)
    said: dict[str, Any] = {**options, "risk": options.get("risk") or ("safe" if reads else "medium")}
    if said["risk"] not in RISKS:
        raise DefinitionError(f"tool {spec.name!r}: its risk is {said['risk']!r}, expected one of {', '.join(RISKS)}")
    if (timeout_s := options.get("timeout_s")) is not None and not timeout_s > 0:
        raise DefinitionError(f"tool {spec.name!r}: its timeout_s is {timeout_s!r}, expected more than 0 seconds")
    return Tool(spec, parse, function, **said)
