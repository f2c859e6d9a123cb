"""Which tools an agent may use: the part of a definition that jobs carry along, to those who only watch them, too."""

import operator
import re
from fnmatch import translate
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.definitions.tool_names import MEMORY_TOOLS, SAFE_TOOLS
from ekiden.shared.risk import Risk

__all__ = ["DEFAULT_HANDOFF_DEPTH", "AfterUntrusted", "Nested", "ToolRules", "is_none", "matches"]

DEFAULT_HANDOFF_DEPTH = 5
"""Handoffs of one job, at most, where the agent's file does not say."""

AfterUntrusted = Literal["allow", "deny"]


class Nested(BaseModel):
    """An object inside a definition; what it holds beside its fields is kept."""

    model_config = ConfigDict(
        frozen=True, extra="allow", serialize_by_alias=True, validate_by_name=True, defer_build=True
    )


def is_none(value: Any) -> bool:
    """Tell whether there is no value."""
    return value is None


class ToolRules(Nested):
    """Which tools an agent may use. Entries are names or shell-style patterns (``mcp.github.*``)."""

    allow: tuple[str, ...] | None = None
    """None: the safe tools; empty: none."""
    deny: tuple[str, ...] = ()
    unknown: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Allowed, but not by a name of ours: used where a worker has such a tool, never waited for."""
    narrowed: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """What the agent lacks because nothing can hold it to what its file says; whole sentences, for people."""
    ask: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """Whose calls are asked about before they run; an entry that begins with ``!`` is none of them."""
    auto_approve: tuple[Risk, ...] | None = Field(default=None, exclude_if=is_none)
    """The levels of risk that run without asking; None: as the settings say."""
    after_untrusted: AfterUntrusted | None = Field(default=None, exclude_if=is_none)
    """``deny``: only harmless tools once the job has read text whose author nobody vouches for."""
    network: bool | None = Field(default=None, exclude_if=is_none)
    """Whether commands of its tools reach a network. None: they do not where something keeps them from it; False: there
    are no commands where nothing does."""

    memory: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the file has the agent remember, which takes the tools for it."""

    def permits(self, name: str, *, only_reads: bool = False) -> bool:
        """Tell whether the tool ``name`` may be used; ``deny`` wins over ``allow``.

        Args:
            name: Of the tool.
            only_reads: Whether its worker says that it is as safe as those that workers ship with.
        """
        named = (only_reads or name in SAFE_TOOLS) if self.allow is None else matches(name, self.allow + self.unknown)
        given = self.memory and name in MEMORY_TOOLS
        return (named or given) and not matches(name, self.deny)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a name is one of ``patterns``, or fits one."""
    return bool(patterns) and _together(patterns).match(name) is not None


@lru_cache(maxsize=1_024)
def _together(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile shell-style patterns once: an agent's are asked for every tool in every leg."""
    return re.compile("|".join(map(translate, patterns)))
