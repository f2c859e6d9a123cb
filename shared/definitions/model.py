"""An agent definition: what an agent file says, frozen, and named by the hash of its content.

Fields are typed as their feature comes; whatever else the front matter holds is kept raw: on the top level in
``extra``, in the nested objects as extra attributes. Reading the several forms that files use is the work of
``parsing.py``.
"""

import hashlib
import json
import operator
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ekiden.shared.bounds import NUMBER, between
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.guardrails import Guardrail
from ekiden.shared.definitions.memory import Memory
from ekiden.shared.definitions.rules import DEFAULT_HANDOFF_DEPTH, AfterUntrusted, Nested, ToolRules, is_none, matches
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, MEMORY_TOOLS, SAFE_TOOLS
from ekiden.shared.errors import UnreadableDefinition
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.loop_kinds import LoopKind, read_switches
from ekiden.shared.subschemas import SchemaEmbedder

__all__ = [
    "DEFAULT_HANDOFF_DEPTH",
    "OUTPUT_PROCESSORS",
    "AfterUntrusted",
    "AgentDefinition",
    "Compression",
    "Confirmation",
    "Delegation",
    "Guardrail",
    "HandoffRule",
    "InputField",
    "Limits",
    "Output",
    "Subagent",
    "ToolRules",
    "Triggers",
    "canonical_json",
    "sha256_of",
]

GRACE_S = 60.0
"""Seconds of a last turn."""
OUTPUT_PROCESSORS = frozenset({"json", "markdown"})
"""Those that workers ship with."""
MOST_CHILDREN = 100
"""Children of one turn, at most."""


def canonical_json(value: Any) -> str:
    """Write JSON in the one form that digests are taken of: sorted keys, no spaces, no escapes that are not needed."""
    return _canonical(value)


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of ``value``, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _one_line(name: str) -> str:
    if not name.isprintable():  # records, logs and terminals show names as they are
        raise ValueError("it must be one line of printable characters")
    return name


def _schema_in(payload: Any) -> dict[str, Any] | None:
    """Return the schema, from ``{schema: {...}}`` too; None where there is none."""
    if not isinstance(payload, Mapping):
        return None
    inner = payload.get("schema")
    return dict(inner if isinstance(inner, Mapping) else payload)


def _check_join(value: str) -> str:
    if not re.fullmatch(r"all|any|quorum:[1-9][0-9]?", value):
        raise ValueError("must be all, any or quorum:<n>, with n from 1 to 99")
    return value


_SECONDS = Annotated[float, between(0.1, 604_800), NUMBER]


_NO_RULES = ToolRules()


class Confirmation(Nested):
    """Calls that a person is to confirm before they run."""

    require: tuple[str, ...] = Field(min_length=1)
    """Names of tools, and patterns."""
    prompt_template: str = ""
    """What people are asked, with ``{tool_name}`` and ``{tool_args}``; empty: the usual question."""
    timeout: _SECONDS = 86_400.0
    """Seconds: a call that nobody has confirmed by then is denied."""

    def requires(self, tool: str) -> bool:
        """Tell whether calls of ``tool`` are to be confirmed."""
        return matches(tool, self.require)

    def text(self, tool: str, args: Mapping[str, Any]) -> str:
        """Return the question about a call; empty: the usual one."""
        put = {"{tool_name}": tool, "{tool_args}": json.dumps(args, ensure_ascii=False)}
        return re.sub(r"\{tool_name\}|\{tool_args\}", lambda mark: put[mark[0]], self.prompt_template)


class Triggers(Nested):
    """What in a request speaks for an agent. ``patterns`` are RE2 expressions."""

    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    priority: Annotated[int, between(0, 100), NUMBER] = 50


class HandoffRule(Nested):
    """An edge of the team: the agent may hand over to ``to``."""

    to: str = Field(min_length=1)
    when: Literal["manual", "auto"] = "manual"
    """``manual`` (the model decides) or ``auto`` (on completion)."""
    condition: str = Field(default="", exclude_if=operator.not_)
    """A CEL expression: whether a manual handoff is offered and accepted, an auto one fires; empty: always."""
    description: str = ""
    include_context: bool | Literal["summary"] | dict[str, Any] = True
    """History for the target: all, none, a summary, or ``{last: N}``."""
    payload: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """A JSON Schema of what the target gets beside the texts; None: nothing."""
    returns: bool = Field(default=False, exclude_if=operator.not_)
    """Control comes back with the result when the target has ended."""

    @model_validator(mode="before")
    @classmethod
    def _of_any_version(cls, values: Any) -> Any:
        """Read what former versions stored, too: a condition as ``when``; ``payload`` and ``return`` as in the file."""
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        when = read.get("when", "manual")
        if isinstance(when, str) and when not in ("manual", "auto"):
            read |= {"when": "manual", "condition": when}
        if "payload" in read:
            read["payload"] = _schema_in(read["payload"])
        if isinstance(returns := read.pop("return", None), bool):
            read.setdefault("returns", returns)
        return read


class Subagent(Nested):
    """An agent that this one may delegate to: call it, and get its result."""

    agent: str = Field(min_length=1)
    timeout: _SECONDS | None = None
    """Seconds; None: that of ``Delegation``."""
    description: str = ""


class Delegation(Nested):
    """How an agent waits for the children of one turn."""

    join: Annotated[str, AfterValidator(_check_join)] = "all"
    """``all``, ``any`` or ``quorum:<n>``: how many must succeed before the agent goes on."""
    timeout: _SECONDS = 3600.0
    """Seconds for each child."""
    max_children: Annotated[int, between(1, MOST_CHILDREN), NUMBER] = 20

    def needed(self, children: int) -> int:
        """Return how many of so many children must succeed; 0: the agent waits until all have ended."""
        if self.join == "all":
            return 0
        return 1 if self.join == "any" else min(int(self.join.removeprefix("quorum:")), children)


_SAYS_NOTHING = (("description", ""), ("default", None))


class InputField(Nested):
    """What a caller gives the agent under one name. Further keywords of JSON Schema are kept."""

    type: Literal["string", "integer", "number", "boolean", "array", "object"] = "string"
    required: bool = False
    description: str = ""
    default: Any = None

    @property
    def schema_of_value(self) -> dict[str, Any]:
        """The JSON Schema of the value."""
        values = self.model_dump(mode="json", exclude={"required"})
        return {key: value for key, value in values.items() if (key, value) not in _SAYS_NOTHING}


class Output(Nested):
    """What ``complete_task`` must carry."""

    name: str = Field(default="result", min_length=1)
    description: str = ""
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    """A JSON Schema; empty: any value."""
    state: dict[str, str] = Field(default_factory=dict)
    """State variable to the dotted path of its value in the output."""
    process: str = Field(default="", exclude_if=operator.not_)
    """The output processor that makes what callers read of it; empty: it is its JSON, or the text that it is."""


class Limits(Nested):
    """What one leg of the agent, and a job that begins with it, may use up."""

    max_turns: Annotated[int, between(1, 10_000), NUMBER] = 30
    max_seconds: Annotated[float, between(1, 604_800), NUMBER] = 600.0
    max_tokens: Annotated[int, between(1, 1_000_000_000), NUMBER] | None = None
    max_cost_usd: Annotated[float, between(0, 1_000_000), NUMBER] | None = None
    max_handoff_depth: Annotated[int, between(0, 100), NUMBER] = DEFAULT_HANDOFF_DEPTH
    grace_seconds: Annotated[float, between(0, 3_600), NUMBER] = Field(
        default=GRACE_S, exclude_if=lambda value: value == GRACE_S
    )
    """What a leg that has reached a limit has for its last turn; 0: it has none."""
    job: JobLimits | None = Field(default=None, exclude_if=is_none)
    """What a job that begins with the agent may use up, with all that is handed over and delegated."""

    @property
    def of_job(self) -> JobLimits:
        """What a job that begins with the agent may use up; where ``job`` is silent, as much as a leg of the agent."""
        said = {name: getattr(self.job, name) for name in ("max_tokens", "max_cost_usd")} if self.job else {}
        return (self.job or JobLimits()).model_copy(
            update={name: getattr(self, name) for name in ("max_tokens", "max_cost_usd") if said.get(name) is None}
        )


class Compression(Nested):
    """When a long conversation is compressed; None: as the settings say."""

    threshold: Annotated[float, between(0.01, 1), NUMBER] | None = None
    """The share of the model's window from which on; 1: never."""
    keep: Annotated[float, between(0, 0.9), NUMBER] | None = None
    """The share of the conversation, the newest of it, that stays word for word."""
    model: str | None = None
    """Who writes the snapshot."""


class AgentDefinition(BaseModel):
    """One agent. ``instructions`` is the system prompt, the body of the file."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True, defer_build=True)

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
    title: str
    description: str
    instructions: str = ""
    kind: str = "agent"
    scope: str = "project"
    version: str | None = None
    model: str | None = None
    """None: the model of the settings (absent and ``inherit`` alike)."""
    fallbacks: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Models that are asked, in this order, where the one before gives no answer."""
    fallback_on: tuple[FallbackCause, ...] = Field(default=(), exclude_if=operator.not_)
    """Why the next one is asked; empty: as the settings say."""
    temperature: Annotated[float, between(0, 2), NUMBER] | None = None
    tools: ToolRules | None = None
    """None: all tools that are safe."""
    confirmation: Confirmation | None = Field(default=None, exclude_if=is_none)
    """Which calls a person is to confirm; None: the file says nothing of that."""
    untrusted: bool = Field(default=False, exclude_if=operator.not_)
    """Whether nobody trusts the folder that it comes from: no file says so of itself."""
    triggers: Triggers = Triggers()
    handoffs: tuple[HandoffRule, ...] = ()
    transfer: Literal["tools", "single"] | None = Field(default=None, exclude_if=is_none)
    """One tool for each target, or a single one; None: a single one where the targets are many."""
    transfer_to_parent: bool = False
    subagents: tuple[Subagent, ...] = Field(default=(), exclude_if=operator.not_)
    delegation: Delegation = Field(default=Delegation(), exclude_if=lambda value: value == Delegation())
    inputs: dict[str, InputField] = Field(default_factory=dict, exclude_if=operator.not_)
    output: Output | None = Field(default=None, exclude_if=is_none)
    complete_task: bool = Field(default=False, exclude_if=operator.not_)
    """The agent must end by calling ``complete_task``."""
    guardrails: tuple[Guardrail, ...] = Field(default=(), exclude_if=operator.not_)
    """What is judged of what it is asked, and of what it says."""
    limits: Limits = Limits()
    loops: Annotated[dict[LoopKind, bool], BeforeValidator(read_switches)] = Field(
        default_factory=dict, exclude_if=operator.not_
    )
    """Kinds of loops that are looked for or not; those that are not named are."""
    compression: Compression = Field(default=Compression(), exclude_if=lambda value: value == Compression())
    memory: Memory = Field(default=Memory(), exclude_if=lambda value: value == Memory())
    graph: Graph | None = Field(default=None, exclude_if=is_none)
    """What runs in the agent's place; None: the agent itself."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """The rest of the front matter, as JSON."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the same content has the same digest, wherever it was read."""
        return sha256_of(self.model_dump(mode="json"))

    @property
    def models(self) -> tuple[str | None, ...]:
        """The model and its fallbacks, in order; None: the model of the settings."""
        return (self.model, *self.fallbacks)

    def with_examples(self, examples: Iterable[str]) -> "AgentDefinition":
        """Return it with further ``examples`` behind those of its file: another definition, with its own digest."""
        own = self.triggers.examples
        triggers = self.triggers.model_copy(update={"examples": tuple(dict.fromkeys((*own, *examples)))})
        copy = self.model_copy(update={"triggers": triggers})
        copy.__dict__.pop("digest", None)  # the copy of what was computed for this one
        return copy

    @property
    def targets(self) -> tuple[str, ...]:
        """The agents that this one may hand over to, in the order of the file."""
        return tuple(rule.to for rule in self.handoffs)

    @cached_property
    def inputs_schema(self) -> dict[str, Any]:
        """The JSON Schema of what a caller gives the agent: an object; an ``objective`` where the file says nothing."""
        fields = self.inputs or {"objective": _OBJECTIVE}
        within = SchemaEmbedder()
        schemas = {name: field.schema_of_value for name, field in fields.items()}
        return {
            "type": "object",
            "properties": {name: within.taken(schema, schema) for name, schema in schemas.items()},
            "required": [name for name, field in fields.items() if field.required],
            **within.shared,
        }

    @property
    def rules(self) -> ToolRules:
        """The rules of its file, or those of an agent whose file has none."""
        return self.tools or _NO_RULES

    @property
    def allowed(self) -> tuple[str, ...]:
        """The tools, and patterns of tools, that the file allows; the safe ones where it names none."""
        rules = self.rules
        given = tuple(tool for tool in sorted(MEMORY_TOOLS) if self.permits(tool) and tool not in (rules.allow or ()))
        if rules.allow is None:
            return tuple(tool for tool in sorted(SAFE_TOOLS) if self.permits(tool)) + given
        return rules.allow + given + tuple(tool for tool in rules.unknown if tool in BUILTIN_TOOLS)

    def permits(self, tool: str, *, only_reads: bool = False) -> bool:
        """Tell whether the rules of the file let the agent use ``tool``; see ``ToolRules``."""
        if tool in MEMORY_TOOLS and self.memory.long_term is None:
            return False
        return self.rules.permits(tool, only_reads=only_reads and not self.untrusted)

    def to_json(self) -> str:
        """Write the definition as canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "AgentDefinition":
        """Read what ``to_json`` wrote. Raises ``UnreadableDefinition`` where a newer version has."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            field = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise UnreadableDefinition(
                f"an agent definition has a {field!r} that this version of Ekiden cannot read: deploy the newer one"
            ) from error


_OBJECTIVE = InputField(
    required=True, description="What the agent is to find out or to do, with all that it must know."
)
