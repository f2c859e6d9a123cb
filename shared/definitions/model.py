"""An agent definition: what an agent file says, frozen, and named by the hash of its content.

Fields are typed as their feature comes; whatever else the front matter holds is kept raw: on the top level in
``extra``, in the nested objects as extra attributes. Reading the several forms that files use is the work of
``forms.py``.
"""

import hashlib
import json
import operator
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["AgentDefinition", "HandoffRule", "Limits", "ToolRules", "Triggers", "canonical_json", "sha256_of"]


def canonical_json(value: Any) -> str:
    """Write JSON in the one form that digests are taken of: sorted keys, no spaces, no escapes that are not needed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of ``value``, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # pydantic collects ValueError, not TypeError
    return value


def _between(low: float, high: float) -> AfterValidator:
    def check(value: float) -> float:
        if not low <= value <= high:  # also refuses NaN
            raise ValueError(f"must be between {low} and {high}")
        return value

    return AfterValidator(check)


_NUMBER = BeforeValidator(_refuse_bool)


class _Nested(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class ToolRules(_Nested):
    """Which tools an agent may use. Entries are names or shell-style patterns (``mcp.github.*``)."""

    allow: tuple[str, ...] | None = None
    """None: every tool that ``deny`` does not name; empty: none."""
    deny: tuple[str, ...] = ()
    unknown: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Allowed, but tools of other programs: used where a worker has such a tool, never waited for."""

    def permits(self, name: str) -> bool:
        """Tell whether the tool ``name`` may be used; ``deny`` wins over ``allow``."""
        if _matches(name, self.deny):
            return False
        return self.allow is None or _matches(name, self.allow + self.unknown)


class Triggers(_Nested):
    """What in a request speaks for an agent. ``patterns`` are RE2 expressions."""

    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    priority: Annotated[int, _between(0, 100), _NUMBER] = 50


class HandoffRule(_Nested):
    """An edge of the team: the agent may hand over to ``to``."""

    to: str = Field(min_length=1)
    when: str = "manual"
    """``manual`` (the model decides), ``auto`` (on completion), or a condition."""
    description: str = ""
    include_context: bool | Literal["summary"] | dict[str, Any] = True
    """History for the target: all, none, a summary, or ``{last: N}``."""


class Limits(_Nested):
    """What one leg of the agent, and a job that begins with it, may use up."""

    max_turns: Annotated[int, _between(1, 10_000), _NUMBER] = 30
    max_seconds: Annotated[float, _between(1, 604_800), _NUMBER] = 600.0
    max_tokens: Annotated[int, _between(1, 1_000_000_000), _NUMBER] | None = None
    max_cost_usd: Annotated[float, _between(0, 1_000_000), _NUMBER] | None = None
    max_handoff_depth: Annotated[int, _between(0, 100), _NUMBER] = 5


class AgentDefinition(BaseModel):
    """One agent. ``instructions`` is the system prompt, the body of the file."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1, max_length=200)
    title: str
    description: str
    instructions: str = ""
    kind: str = "agent"
    scope: str = "project"
    version: str | None = None
    model: str | None = None
    """None: the model of the settings (absent and ``inherit`` alike)."""
    temperature: Annotated[float, _between(0, 2), _NUMBER] | None = None
    tools: ToolRules | None = None
    """None: all tools that are safe."""
    triggers: Triggers = Triggers()
    handoffs: tuple[HandoffRule, ...] = ()
    transfer_to_parent: bool = False
    limits: Limits = Limits()
    extra: dict[str, Any] = Field(default_factory=dict)
    """The rest of the front matter, as JSON."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the same content has the same digest, wherever it was read."""
        return sha256_of(self.model_dump(mode="json"))

    @property
    def targets(self) -> tuple[str, ...]:
        """The agents that this one may hand over to, in the order of the file."""
        return tuple(rule.to for rule in self.handoffs)

    def permits(self, tool: str) -> bool:
        """Tell whether the rules of the file let the agent use ``tool``."""
        return self.tools is None or self.tools.permits(tool)

    def to_json(self) -> str:
        """Write the definition as canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "AgentDefinition":
        """Read what ``to_json`` wrote."""
        return cls.model_validate_json(text)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
