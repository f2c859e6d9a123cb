"""The top-level fields of agent files that mean something, here or where the files come from."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

__all__ = [
    "AUTO_APPROVE",
    "DENIED_TOOLS",
    "KNOWN_FIELDS",
    "MAX_TURNS",
    "MCP_SERVERS",
    "NETWORK",
    "PROSE",
    "SPENDING",
    "TIMEOUT_MINUTES",
    "TOOLS",
    "asks",
    "folded",
    "is_restricting",
    "keys_of",
    "refuses",
    "seems_permitting",
    "seems_restricting",
]


def folded(name: Any) -> str:
    """Return a name of a field, or a word, without what its spellings differ in: ``read-only`` is ``readOnly``."""
    return _folded(str(name))


@lru_cache(1024)
def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def keys_of(fields: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the keys of ``fields`` that are a spelling of one of ``names``, in the order of the names."""
    places = _places(tuple(names))
    return sorted((key for key in fields if folded(key) in places), key=lambda key: places[folded(key)])


@lru_cache(64)
def _places(names: tuple[str, ...]) -> Mapping[str, int]:
    """Return where each of ``names`` first stands; a few lists of names are all that files are ever searched for."""
    return {folded(name): place for place, name in reversed(list(enumerate(names)))}


def _spelt(*names: str) -> tuple[str, ...]:
    """Return names of several words, written with capitals, in the three ways that files spell them."""
    ways = (lambda name: name, lambda name: _joined(name, "_"), lambda name: _joined(name, "-"))
    return tuple(way(name) for name in names for way in ways)


def _joined(name: str, by: str) -> str:
    return re.sub(r"([A-Z])", lambda capital: by + capital[0].lower(), name)


PROSE = ("description", "title")
"""Fields that hold sentences, which hand-written files seldom quote."""

TOOLS = ("tools", *_spelt("allowedTools"))
"""Which tools the agent gets; of several, what all of them allow. Every spelling counts: see ``keys_of``."""
DENIED_TOOLS = _spelt(
    "disallowedTools", "deniedTools", "excludeTools", "excludedTools", "forbiddenTools", "blockedTools", "disabledTools"
)
NETWORK = ("network",)
"""Whether commands of its tools reach a network."""
AUTO_APPROVE = _spelt("autoApprove")
"""The levels of risk that run without asking; of several, what all of them have."""
MAX_TURNS = ("max_turns", "maxTurns")
TIMEOUT_MINUTES = ("timeout_mins", "timeoutMins")
SPENDING = {"maxTokens": "max_tokens", "maxCost": "max_cost_usd"}
"""Limits of what a leg spends, on the top level."""
MCP_SERVERS = ("mcp", "mcp_servers", "mcpServers", "mcp-servers")

_OURS = (
    "kind name title description systemPrompt model models temperature color scope version triggers handoffs subagents "
    "delegation transfer transfer_to_parent inputs output complete_task limits loops compression guardrails "
    "confirmation tool_confirmation memory graph orchestrate hooks tracing"
)
KNOWN_FIELDS = frozenset(
    [
        *_OURS.split(),
        *TOOLS,
        *DENIED_TOOLS,
        *NETWORK,
        *AUTO_APPROVE,
        *MAX_TURNS,
        *TIMEOUT_MINUTES,
        *SPENDING,
        *MCP_SERVERS,
    ]
) | {
    "permission",
    "display_name",
    "permissionMode",
    "permissions",
}
"""All of them. Others are kept too, and ``ekiden agents validate`` names them."""
_KNOWN = frozenset(map(folded, KNOWN_FIELDS))

_OTHER_RESTRICTING = ["permission", "permissions", "permissionMode", "hooks", "limits", "mode", "sandbox", "readOnly"]
_RESTRICTING = frozenset(
    map(folded, [*TOOLS, *DENIED_TOOLS, *MAX_TURNS, *TIMEOUT_MINUTES, *SPENDING, *_OTHER_RESTRICTING])
)
_SEEMS_RESTRICTING = re.compile(
    r"allow|approv|askbefore|block|confine|confirm|den(y|ied)|disable|exclu|forbid|guard|hitl|humaninthe|isolat"
    r"|^no(bash|edit|exec|network|shell|terminal|tool|writ)|permi|policy|prohibit|readonly|requires?(human|review)|restrict"
    r"|sandbox|tools?settings|untrusted|允许|只读|审批|权限|沙箱|禁止"
)
_REFUSALS = frozenset(["ask", "denied", "deny", "disabled", "false", "forbidden", "never", "no", "none", "off"])
_SEEMS_PERMITTING = re.compile(
    r"allow(?!ed)|can(chang|creat|delet|run|use)|(can|enable|has|is)?(bash|edit|exec|modif|network|shell|terminal|writ)"
)


def is_restricting(key: str) -> bool:
    """Tell whether ``key`` is a spelling of a field that says what an agent must not do."""
    return folded(key) in _RESTRICTING


def is_known(key: str) -> bool:
    """Tell whether ``key`` is a spelling of a field that something here reads."""
    return folded(key) in _KNOWN


def seems_restricting(key: str) -> bool:
    """Tell whether ``key`` is a field that nobody here knows and that, by its name, restricts the agent."""
    return folded(key) not in _KNOWN and _SEEMS_RESTRICTING.search(folded(key)) is not None


def seems_permitting(key: str) -> bool:
    """Tell whether ``key`` is a field that nobody here knows and that, by its name, lets the agent do something."""
    return folded(key) not in _KNOWN and _SEEMS_PERMITTING.match(folded(key)) is not None


def refuses(value: Any) -> bool:
    """Tell whether the value of a field that permits says no; ``ask`` does, where a question makes no sense."""
    return value is not None and folded(value) in _REFUSALS


def asks(value: Any) -> bool:
    """Tell whether the value of a field that permits says that somebody is to be asked."""
    return folded(value) == "ask"
