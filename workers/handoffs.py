"""Transfers: what becomes of a call that hands over, and what an agent's file hands over on completion."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import structlog

from ekiden.shared.conditions import Condition
from ekiden.shared.definitions.model import AgentDefinition, HandoffRule
from ekiden.shared.definitions.transfer_names import ToolNames, agent_meant
from ekiden.shared.errors import ConditionFailed, DefinitionError, HandoffRefused
from ekiden.shared.handoff import Frame, HandoffContext, History
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import ToolCall
from ekiden.shared.once import Once
from ekiden.shared.outcomes import Transfer
from ekiden.shared.relay.leg import Leg
from ekiden.shared.schemas import problems
from ekiden.workers.handoff_targets import (
    AGENT_NAME,
    SINGLE,
    Target,
    instruction_for,
    max_depth_for,
    payload_of,
    shares_a_tool,
    single_tool,
    targets_of,
    tool_for,
)
from ekiden.workers.job_variables import task_variables

__all__ = ["Transfers"]

MAX_ARGUMENT = 100_000
"""Characters of a text argument that are kept."""
MAX_SHOWN = 100
"""Characters of a made-up name that a text shows."""
EVERYBODY, PARENT = "agent", "parent"
"""No agent has one of these names: ``transfer_to_agent`` is the single tool, ``parent`` where control came from."""

_CALL = re.compile(
    r"(?:.*[:./])?((?:transfer|hand[-_ ]?off|hand)[-_ ](?:back[-_ ])?to[-_ ].+)", re.IGNORECASE | re.DOTALL
)
"""A transfer's name, as others write it too (``handoff_to_x``, ``transfer_back_to_x``), or behind a namespace."""

log = structlog.get_logger(__name__)


@lru_cache(maxsize=16)
def _names_of(agents: tuple[str, ...]) -> ToolNames:
    """Return the tools' names, worked out once for each catalog and not in every leg."""
    return ToolNames(agents)


class Transfers:
    """The handoffs of one agent in one leg."""

    def __init__(
        self, agent: AgentDefinition, leg: Leg, manifest: Mapping[str, str], agents: Mapping[str, AgentDefinition]
    ) -> None:
        """Offer the agent's handoffs and, where it may, the agent that control came from.

        Args:
            agent: Who runs.
            leg: Says how control came here, and what the session's variables are.
            manifest: Every agent of the job's catalog, with the digest of its definition.
            agents: The definitions of ``targets_of``.
        """
        self._agent = agent
        self._leg = leg
        self._manifest = manifest
        self._names = _names_of(tuple(manifest))
        self._targets = {
            rule.to: Target(rule, self._names.tool_for(rule.to), agents[rule.to].description)
            for rule in targets_of(agent, leg)
            if rule.to in agents
        }
        self._is_single = shares_a_tool(agent, len(self._targets))
        self._warned = Once()

    @property
    def names(self) -> tuple[str, ...]:
        """The agents that control can go to now, by the model's choice."""
        return tuple(target.rule.to for target in self._open)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """One tool for each target whose condition holds now; or the single one for all of them."""
        targets = self._open
        if self._is_single:
            return (single_tool(targets),) if targets else ()
        return tuple(tool_for(target) for target in targets)

    @property
    def instruction(self) -> str:
        """What the agent's instructions say of the single tool; empty where each target has its own."""
        return instruction_for(self._open) if self._is_single else ""

    def is_transfer(self, call: ToolCall) -> bool:
        """Tell whether the call means to hand over, to whomever."""
        return _CALL.fullmatch(call.name) is not None

    def transfer(self, call: ToolCall, upto: int) -> Transfer:
        """Return the transfer that ``call`` asks for; the history that the target sees ends at position ``upto``.

        Raises ``HandoffRefused`` with a text that names the allowed targets.
        """
        called = self._called(call)
        target = self._permitted(called)
        rule = target.rule
        context = self._leg.context.advance(
            rule.to,
            self._reason(call),
            context=_text(call, "context") or (None if rule.payload else _text(call, "payload")),
            summary=_text(call, "summary"),
            payload=self._payload(call, rule) if rule.payload else None,
            history=_history(rule, upto),
            call=self._frame(call) if rule.returns else None,
        )
        return self._transfer(context, call_id=call.id, tool_name=call.name, note=self._note(call, called, target))

    def automatic(self, output: Any, upto: int) -> Iterator[Transfer]:
        """Yield the handoffs that the agent's file asks for on completion with ``output``, in its order."""
        for rule in self._agent.handoffs:
            if rule.when == "auto" and rule.to in self._manifest and self._holds(rule, output):
                said = f"completed: {rule.description}" if rule.description else "completed"
                history = _history(rule, upto)
                yield self._transfer(self._leg.context.advance(rule.to, said, history=history, **_given(rule, output)))

    @property
    def _open(self) -> list[Target]:
        return [target for target in self._targets.values() if self._holds(target.rule)]

    def _holds(self, rule: HandoffRule, output: Any = None) -> bool:
        """Tell whether the edge's condition is true; one that cannot be computed is not."""
        if not rule.condition:
            return True
        try:
            return Condition.parse(rule.condition).holds(self._variables(output))
        except (ConditionFailed, DefinitionError) as error:  # the latter where it was stored before it was checked
            if self._warned.first(rule.to):
                log.warning("handoff_condition_failed", to=rule.to, condition=rule.condition, error=str(error))
            return False

    def _variables(self, output: Any) -> dict[str, Any]:
        return {"state": self._leg.state, "output": output, "task": task_variables(self._leg)}

    def _called(self, call: ToolCall) -> str:
        """Return the target as the model called it: what follows is the same for both styles.

        A model that knows the other style from elsewhere is understood as well.
        """
        match = _CALL.fullmatch(call.name)
        name = match[1] if match else call.name
        if any(target.tool == name for target in self._targets.values()) or not agent_meant(name, [EVERYBODY]):
            return name
        named = call.args.get(AGENT_NAME)
        if not isinstance(named, str) or not named.strip():
            raise self._refused("BAD_ARGUMENTS", f"{SINGLE} needs the name of an agent as {AGENT_NAME!r}.")
        return named.strip()

    def _permitted(self, called: str) -> Target:
        agent = self._meant(called)
        if agent is None:
            raise self._refused("UNKNOWN_AGENT", f"no agent is called {_shown(called)}.")
        if agent == self._agent.name:
            raise self._refused("SELF_HANDOFF", f"you are {agent!r} yourself.")
        if agent not in self._targets:
            raise self._refused("PERMISSION_DENIED", self._why_not(agent))
        target = self._targets[agent]
        if not self._holds(target.rule):
            why = f"agent {agent!r} takes over only while this is true, and now it is not: {target.rule.condition}"
            raise self._refused("CONDITION_FALSE", why)
        return target

    def _why_not(self, agent: str) -> str:
        if any(rule.to == agent and rule.when == "auto" for rule in self._agent.handoffs):
            return f"control goes to agent {agent!r} by itself once you have finished, not by a call."
        return f"agent {self._agent.name!r} may not hand over to {agent!r}."

    def _meant(self, called: str) -> str | None:
        """Return the agent that a name means, exactly or nearly; None where it is nobody, or could be several."""
        if called in self._manifest:
            return called
        if (agent := self._names.agent_for(called)) is not None:
            return agent
        if agent_meant(called, [PARENT]):
            return self._leg.context.from_agent
        return agent_meant(called, self._targets) or agent_meant(called, self._manifest)

    def _note(self, call: ToolCall, called: str, target: Target) -> str:
        """Say what was mended in a call; empty for one that is as it was offered."""
        offered = (SINGLE, target.rule.to) if self._is_single else (target.tool, target.tool)
        if (call.name, called) == offered:
            return ""
        whom = "" if call.name.endswith(called) else f" for {_shown(called)}"
        return f"{self._agent.name} called {_shown(call.name)}{whom}: read as a handoff to {target.rule.to!r}"

    def _reason(self, call: ToolCall) -> str:
        reason = call.args.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise self._refused("BAD_ARGUMENTS", f"{call.name} needs a text as 'reason'.")
        return reason[:MAX_ARGUMENT]

    def _payload(self, call: ToolCall, rule: HandoffRule) -> dict[str, Any] | None:
        payload = payload_of(rule.payload or {}, call.args)
        if found := problems(payload, {"type": "object", **(rule.payload or {})}):
            listed = "\n".join(f"- {problem}" for problem in found)
            raise self._refused("BAD_PAYLOAD", f"the payload for agent {rule.to!r} is not what it takes:\n{listed}")
        return payload or None

    def _frame(self, call: ToolCall) -> Frame:
        context = self._leg.context
        length = len(context.metadata.handoff_chain)
        return Frame(
            agent=self._agent.name,
            leg=self._leg.number,
            call_id=call.id,
            from_agent=context.from_agent,
            chain_length=length,
            graphs=len(context.graphs),
        )

    def _transfer(self, context: HandoffContext, **of_the_call: Any) -> Transfer:
        return Transfer(
            context,
            max_depth=max_depth_for(self._agent, self._leg.request),
            may_return=self._agent.transfer_to_parent,
            definition=self._manifest[context.to_agent],
            **of_the_call,
        )

    def _refused(self, code: str, why: str) -> HandoffRefused:
        return HandoffRefused(code, f"Not executed: {why}\n{self._advice}")

    @property
    def _advice(self) -> str:
        if not (targets := self._open):
            waiting = self._leg.context.calls
            reader = f"agent {waiting[-1].agent!r}, which waits for it" if waiting else "the user"
            return f"You may hand over to nobody now: finish the task and answer {reader}."
        if self._is_single:
            return f"Correct it and call again. Allowed as {AGENT_NAME!r}: {', '.join(map(repr, self.names))}."
        tools = ", ".join(f"{target.tool} (agent {target.rule.to!r})" for target in targets)
        return f"Correct it and call again. Allowed: {tools}."


def _history(rule: HandoffRule, upto: int) -> History:
    match rule.include_context:
        case False:
            return History(mode="none", upto=upto)
        case "summary":
            return History(mode="summary", upto=upto)
        case {"last": int(last)}:
            return History(mode="last", last=last, upto=upto)
        case _:
            return History(mode="all", upto=upto)


def _given(rule: HandoffRule, output: Any) -> dict[str, Any]:
    """Return how the output goes with an automatic handoff: as the payload, if it is one; else in words."""
    if isinstance(output, Mapping) and rule.payload and not problems(output, rule.payload):
        return {"payload": dict(output)}
    return {"context": _as_text(output)}


def _text(call: ToolCall, name: str) -> str | None:
    """Return an optional argument; what a model gave as an object or a list is kept, as JSON."""
    return _as_text(call.args.get(name))


def _as_text(value: Any) -> str | None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else ""
    return text[:MAX_ARGUMENT] if text.strip() else None


def _shown(called: str) -> str:
    return repr(called if len(called) <= MAX_SHOWN else f"{called[:MAX_SHOWN]}…")
