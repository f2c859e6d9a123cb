"""Transfers as tools: what an agent is offered, and what becomes of a call."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.definitions.model import AgentDefinition, HandoffRule
from shared.definitions.names import ToolNames
from shared.errors import HandoffRefused
from shared.handoff import HandoffContext, History
from shared.llm.base import ToolSpec
from shared.messages import ToolCall
from shared.outcomes import Transfer

__all__ = ["Transfers"]

PREFIX = "transfer_to_"
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
        return call.name.startswith(PREFIX)

    def transfer(self, call: ToolCall, upto: int) -> Transfer:
        """Return the transfer that ``call`` asks for; the history that the target sees ends at position ``upto``.

        Raises ``HandoffRefused`` with a text that names the allowed targets.
        """
        target = self._permitted(call)
        texts = {name: _text(call, name) for name in ("reason", "context", "summary")}
        if not texts["reason"]:
            raise HandoffRefused("BAD_ARGUMENTS", f"Not executed: {call.name} needs a text as 'reason'.")
        context = self._context.advance(
            target.rule.to,
            texts["reason"],
            context=texts["context"],
            summary=texts["summary"],
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
        agent = self._names.agent_for(call.name)
        if agent is None:
            raise HandoffRefused(
                "UNKNOWN_AGENT", f"Not executed: no agent has the tool {call.name!r}. {self._allowed()}"
            )
        if agent == self._agent.name:
            raise HandoffRefused("SELF_HANDOFF", f"Not executed: you are {agent!r} yourself. {self._allowed()}")
        if agent not in self._targets:
            raise HandoffRefused(
                "PERMISSION_DENIED",
                f"Not executed: agent {self._agent.name!r} may not hand over to {agent!r}. {self._allowed()}",
            )
        return self._targets[agent]

    def _allowed(self) -> str:
        if not self._targets:
            return "You may hand over to nobody: finish the task yourself and answer the user."
        return f"Allowed: {', '.join(target.tool for target in self._targets.values())}."


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
    value = call.args.get(name)
    return value[:MAX_ARGUMENT] if isinstance(value, str) and value.strip() else None
