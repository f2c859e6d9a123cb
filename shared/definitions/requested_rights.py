"""What an agent file asks for beyond what is harmless, and what is left of an agent that nobody granted it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ekiden.shared.definitions.fields import MCP_SERVERS
from ekiden.shared.definitions.model import AgentDefinition, Limits, ToolRules
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, SAFE_TOOLS
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.embedding_models import OWN_ENCODER
from ekiden.shared.risk import Risk
from ekiden.shared.trust.rights import Right, limit_right, tool_right, value_right

__all__ = ["Names", "not_without", "rights_wanted", "without_rights"]

_HARMLESS_LEVELS: tuple[Risk, ...] = ("safe", "low")
_RISKY_FIELDS = {**dict.fromkeys(MCP_SERVERS, "MCP servers"), "hooks": "hooks"}
"""Fields that bring programs or addresses, and what they hold."""
_USUAL = Limits()
_LIMITS = ("max_turns", "max_seconds", "max_handoff_depth", "grace_seconds")
"""Those that are there without a file's word; of all others a file can only say less than the user does."""


class Names:
    """The names of agents that are the user's own, come with Ekiden, or serve another project with rights."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._tools = frozenset(map(transfer_tool_name, self._names))

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def with_more(self, names: Iterable[str]) -> "Names":
        """Return these and ``names``."""
        return Names([*self._names, *names])

    def would_lose(self, name: str) -> bool:
        """Tell whether an agent ``name`` would take one's place: by its name, or because they share a tool's name."""
        return name in self or transfer_tool_name(name) in self._tools


def rights_wanted(agent: AgentDefinition, users: Names) -> list[Right]:
    """Return what the agent of a project asks for: tools beyond reading, a network, programs, another's place.

    And what costs more than is usual: models of its choice, higher limits, to go round in circles.
    """
    subject = f"agent {agent.name}"
    rights = [tool_right(subject, entry, _denied(agent)) for entry in _risky_tools(agent)]
    for field, kind in _RISKY_FIELDS.items():
        if value := agent.extra.get(field):
            rights.append(value_right(subject, value, f"{kind} {json.dumps(value, ensure_ascii=False)}", field))
    if (notes := agent.memory.long_term) is not None:
        whose = f"shared {notes.shared}" if notes.namespace == "shared" else notes.namespace
        model = notes.embedding_model if notes.embedding_model != OWN_ENCODER else ""
        what, reader = (f"{whose} by {model}", f"; {model} reads what") if model else (whose, "")
        rights.append(Right(subject, f"remembers {what}", shown=f"remembers from job to job ({whose}{reader})"))
    if agent.rules.network:
        rights.append(Right(subject, "network", shown="network for its commands"))
    if levels := _levels(agent):
        rights.append(Right(subject, f"approves {' '.join(levels)}", shown=f"runs without asking: {', '.join(levels)}"))
    rights += _costs(agent, subject)
    if users.would_lose(agent.name):
        rights.append(Right(subject, "counts first", shown="replaces yours or Ekiden's"))
    others = dict.fromkeys(target for target in (*agent.targets, *_in_graph(agent)) if users.would_lose(target))
    return rights + [Right(subject, f"hands over to {name}", shown=f"hands over to {name}") for name in others]


def without_rights(agent: AgentDefinition, users: Names) -> AgentDefinition:
    """Return the agent without all that ``rights_wanted`` finds; the place in the order of precedence is the caller's.

    It hands over to no agent of the user's, whose tools would serve its words.
    """
    rules = agent.tools or ToolRules()
    named = tuple(tool for tool in rules.allow or () if tool in SAFE_TOOLS and agent.permits(tool))
    meant = tuple(tool for tool in sorted(SAFE_TOOLS) if tool not in named and agent.permits(tool))
    changed: dict[str, Any] = {
        # What a pattern means is not waited for.
        "tools": rules.model_copy(
            update={
                "allow": named,
                "unknown": meant,
                "network": rules.network and None,
                "auto_approve": _without_levels(rules),
                "memory": False,
            }
        ),
        "handoffs": tuple(rule for rule in agent.handoffs if not users.would_lose(rule.to)),
        "memory": agent.memory.model_copy(update={"long_term": None}),
        **_usual(agent),
        "extra": {key: value for key, value in agent.extra.items() if key not in _RISKY_FIELDS},
    }
    # A copy would keep the digest that was computed of the original.
    fields = {name: getattr(agent, name) for name in AgentDefinition.model_fields}
    return AgentDefinition(**{**fields, **changed})


def not_without(agent: AgentDefinition, users: Names) -> tuple[int, str] | None:
    """Return the node, by its number, and what of it the agent's graph cannot do without that nobody granted.

    None: the agent can do without rights.
    """
    left = without_rights(agent, users)
    for number, node in enumerate(agent.graph.nodes if agent.graph else ()):
        if node.runner and users.would_lose(node.runner):
            return number, f"runs {node.runner!r}"
        if node.tool and _may_call(agent, node.tool) and not _may_call(left, node.tool):
            return number, f"calls {node.tool!r}"
    return None


def _may_call(agent: AgentDefinition, tool: str) -> bool:
    return agent.permits(tool, only_reads=tool not in BUILTIN_TOOLS)


def _in_graph(agent: AgentDefinition) -> tuple[str, ...]:
    return tuple(node.runner for node in agent.graph.nodes if node.runner) if agent.graph else ()


def _costs(agent: AgentDefinition, subject: str) -> Iterator[Right]:
    if models := list(dict.fromkeys(one for one in (*agent.models, agent.compression.model) if one)):
        yield Right(subject, f"models {' '.join(models)}", shown=f"model {', '.join(models)}")
    for name in _LIMITS:
        if (most := getattr(agent.limits, name)) > getattr(_USUAL, name):
            yield limit_right(subject, name, most)
    if off := sorted(kind for kind, is_on in agent.loops.items() if not is_on):
        yield Right(subject, f"loops off {' '.join(off)}", shown=f"loops are not looked for: {', '.join(off)}")


def _usual(agent: AgentDefinition) -> dict[str, Any]:
    """Return the fields of the agent that cost, as ``_costs`` finds nothing in them; what is lower stays."""
    lower = {name: min(getattr(agent.limits, name), getattr(_USUAL, name)) for name in _LIMITS}
    return {
        "model": None,
        "fallbacks": (),
        "fallback_on": (),
        "limits": agent.limits.model_copy(update=lower),
        "loops": {kind: is_on for kind, is_on in agent.loops.items() if is_on},
        "compression": agent.compression.model_copy(update={"model": None}),
    }


def _denied(agent: AgentDefinition) -> tuple[str, ...]:
    return agent.tools.deny if agent.tools else ()


def _levels(agent: AgentDefinition) -> list[str]:
    """Return the levels of risk that the agent wants to use without asking, beyond those that everybody does."""
    return [level for level in sorted(agent.rules.auto_approve or ()) if level not in _HARMLESS_LEVELS]


def _without_levels(rules: ToolRules) -> tuple[Risk, ...] | None:
    levels = rules.auto_approve
    return None if levels is None else tuple(level for level in levels if level in _HARMLESS_LEVELS)


def _risky_tools(agent: AgentDefinition) -> Iterator[str]:
    """Yield the names and patterns of tools that are not all safe, as far as the file does not forbid them itself."""
    rules = agent.tools or ToolRules()
    entries = () if rules.allow is None else rules.allow + rules.unknown
    for entry in dict.fromkeys(entries):
        is_pattern = bool(set(entry) & set("*?["))
        if entry not in SAFE_TOOLS and (is_pattern or agent.permits(entry)):
            yield entry
