"""What an agent file says to no effect: misspelt keys of nested objects, and keys that cannot matter where they are."""

from collections.abc import Iterator

from pydantic import BaseModel

from ekiden.shared.definitions.agent_inputs import needs_inputs
from ekiden.shared.definitions.graph import SHORT_FORM
from ekiden.shared.definitions.graph_surroundings import idle_beside_a_graph
from ekiden.shared.definitions.model import AgentDefinition, Triggers
from ekiden.shared.definitions.tool_names import MEMORY_TOOLS
from ekiden.shared.suggestions import nearest

__all__ = ["unused_keys_in"]

_OF_OTHERS = frozenset({"intents"})
"""Kept for other programs that read the same files."""
_IN_FILES = {"returns": "return"}
"""What files call otherwise than the model does."""


def unused_keys_in(agent: AgentDefinition) -> Iterator[tuple[str, str]]:
    """Yield a warning for each: the field of the front matter, and what to do."""
    for rule in agent.handoffs:
        where = f"the handoff to {rule.to!r}"
        yield from (("handoffs", text) for text in _unknown(rule, where))
        if rule.when == "auto" and rule.returns:
            yield "handoffs", f"'return' of {where} has no effect: an automatic handoff is no call. Leave it out"
    for below in agent.subagents:
        yield from (("subagents", text) for text in _unknown(below, f"the sub-agent {below.agent!r}"))
    for field in ("triggers", "delegation", "output", "limits", "compression", "memory"):
        if (nested := getattr(agent, field)) is not None:
            yield from ((field, text) for text in _unknown(nested, repr(field)))
    if agent.memory.long_term is None and (named := sorted(MEMORY_TOOLS.intersection(agent.rules.allow or ()))):
        yield "tools", f"{named[0]!r} has no effect in an agent without memory: write 'memory: true' as well"
    if agent.graph is not None:
        yield from idle_beside_a_graph(agent)
    if agent.triggers != Triggers() and (lacking := needs_inputs(agent)):
        said = f"'triggers' has no effect: a request alone gives no {' or '.join(map(repr, lacking))}, which it needs"
        yield "triggers", f"{said}. Give the input a 'default', or leave 'triggers' out"
    yield from _without_orchestrate(agent)
    if agent.limits.job is not None:
        yield from (("limits", text) for text in _unknown(agent.limits.job, "'limits.job'"))


def _without_orchestrate(agent: AgentDefinition) -> Iterator[tuple[str, str]]:
    advice = "write it into 'graph'" if agent.graph is not None else "add 'orchestrate', or leave it out"
    for key in SHORT_FORM:
        if key in agent.extra:
            yield key, f"{key!r} has no effect without 'orchestrate': {advice}"


def _unknown(nested: BaseModel, where: str) -> Iterator[str]:
    if not (unknown := sorted((nested.model_extra or {}).keys() - _OF_OTHERS)):
        return
    fields = type(nested).model_fields.items()
    known = [_IN_FILES.get(name, info.alias or name) for name, info in fields]
    for key in unknown:
        near = nearest(key.casefold(), known, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}"
        yield f"{key!r} of {where} is not known and has no effect. {advice}"
