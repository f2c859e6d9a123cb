"""Transfers as tools: what an agent is offered, and what becomes of a call."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.definitions.model import AgentDefinition, HandoffRule
from shared.definitions.names import PREFIX, ToolNames
from shared.errors import HandoffRefused
from shared.handoff import HandoffContext, History
from shared.llm.base import ToolSpec
from shared.messages import ToolCall
from shared.outcomes import Transfer

__all__ = ["Transfers", "targets_of"]

MAX_ARGUMENT = 100_000
"""Characters of a text argument that are kept."""

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "Why this agent should go on."},
        "context": {"type": "string", "description": "What it must know: files, lines, findings, constraints."},
        "summary": {"type": "string", "description": "What has been done so far, in a few sentences."},
    },
    "required": ["reason"],
}


@dataclass(frozen=True)
class _Target:
    rule: HandoffRule
    tool: str
    description: str


class Transfers:
    """The transfer tools of one agent in one leg."""

    def __init__(
        self, agent: AgentDefinition, context: HandoffContext, names: ToolNames, descriptions: Mapping[str, str]
    ) -> None:
        """Offer the agent's handoffs and, where it may, the agent that control came from.

        Args:
            agent: Who runs.
            context: How control came here.
            names: Tool names of the whole catalog.
            descriptions: What each agent of ``targets_of`` is for.
        """
        self._agent = agent
        self._context = context
        self._names = names
        self._targets = {
            rule.to: _Target(rule, names.tool_for(rule.to), _described(rule, descriptions))
            for rule in targets_of(agent, context)
        }

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """One tool for each target."""
        return tuple(
            ToolSpec(name=target.tool, description=target.description, parameters=_PARAMETERS)
            for target in self._targets.values()
        )

    def is_transfer(self, call: ToolCall) -> bool:
        """Tell whether the call means to hand over, to whomever."""
        return _bare(call.name).startswith(PREFIX)

    def transfer(self, call: ToolCall, upto: int) -> Transfer:
        """Return the transfer that ``call`` asks for; the history that the target sees ends at position ``upto``.

        Raises ``HandoffRefused`` with a text that names the allowed targets.
        """
        target = self._permitted(call)
        reason = call.args.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise self._refused("BAD_ARGUMENTS", f"{target.tool} needs a text as 'reason'")
        context = self._context.advance(
            target.rule.to,
            reason[:MAX_ARGUMENT],
            context=_text(call, "context"),
            summary=_text(call, "summary"),
            history=_history(target.rule, upto),
        )
        return Transfer(
            context,
            call_id=call.id,
            tool_name=call.name,
            max_depth=self._agent.limits.max_handoff_depth,
            may_return=self._agent.transfer_to_parent,
        )

    def _permitted(self, call: ToolCall) -> _Target:
        agent = self._names.agent_for(_bare(call.name))
        if agent is None:
            raise self._refused("UNKNOWN_AGENT", f"no agent has the tool {call.name!r}")
        if agent == self._agent.name:
            raise self._refused("SELF_HANDOFF", f"you are {agent!r} yourself")
        if agent not in self._targets:
            raise self._refused("PERMISSION_DENIED", f"agent {self._agent.name!r} may not hand over to {agent!r}")
        return self._targets[agent]

    def _refused(self, code: str, why: str) -> HandoffRefused:
        allowed = ", ".join(f"{target.tool} (agent {to!r})" for to, target in self._targets.items())
        advice = (
            f"Allowed: {allowed}." if allowed else "You may hand over to nobody: finish the task and answer the user."
        )
        return HandoffRefused(code, f"Not executed: {why}. {advice}")


def targets_of(agent: AgentDefinition, context: HandoffContext) -> list[HandoffRule]:
    """Return the edges that are open to the agent in this leg, its file's first."""
    rules = [rule for rule in agent.handoffs if rule.when == "manual"]
    parent = context.from_agent
    if agent.transfer_to_parent and parent != "user" and parent not in {rule.to for rule in rules}:
        rules.append(HandoffRule(to=parent, description="Hand back to the agent that gave you control."))
    return rules


def _described(rule: HandoffRule, descriptions: Mapping[str, str]) -> str:
    parts: Iterable[str] = (rule.description, f"Agent {rule.to}: {descriptions.get(rule.to, '')}")
    return "\n".join(part for part in parts if part)


def _history(rule: HandoffRule, upto: int) -> History:
    match rule.include_context:
        case False:
            return History(mode="none", upto=upto)
        case {"last": int(last)}:
            return History(mode="last", last=last, upto=upto)
        case _:  # True; a summary is made when its feature comes, until then the target gets everything
            return History(mode="all", upto=upto)


def _text(call: ToolCall, name: str) -> str | None:
    """Return an optional argument; what a model gave as an object or a list is kept, as JSON."""
    value = call.args.get(name)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else ""
    return text[:MAX_ARGUMENT] if text.strip() else None


def _bare(name: str) -> str:
    """Take the namespace off that some models put before a tool's name (``default_api:transfer_to_x``)."""
    return re.split(r"[:.]", name)[-1]
