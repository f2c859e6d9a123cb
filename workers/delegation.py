"""Other agents as tools: a call begins a child job, and its result is the call's result."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.shared.definitions.agent_inputs import called_with
from ekiden.shared.definitions.model import AgentDefinition, Subagent, ToolRules
from ekiden.shared.definitions.transfer_names import DELEGATION_PREFIX, agent_meant, delegation_tool_name
from ekiden.shared.errors import ToolError
from ekiden.shared.handoff import History
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import ChildJob
from ekiden.shared.records import Delegated
from ekiden.shared.relay.leg import Leg
from ekiden.shared.schemas import problems
from ekiden.shared.stores.views import JobView
from ekiden.workers.handoff_targets import AGENT_NAME, max_depth_for, shares_a_tool
from ekiden.workers.prompt import quoted_result
from ekiden.workers.untrusted import Untrusted

__all__ = ["Delegations", "enough", "result_of"]

SINGLE = "delegate_to_agent"
MAX_OBJECTIVE = 100_000
"""Characters of an objective that are kept."""


class Delegations:
    """The agents that one agent may call in one leg."""

    def __init__(
        self, agent: AgentDefinition, leg: Leg, subagents: Mapping[str, AgentDefinition], untrusted: Untrusted
    ) -> None:
        """Offer ``agent.subagents``, whose definitions are ``subagents``."""
        self._agent = agent
        self._leg = leg
        self._untrusted = untrusted
        self._rules = {rule.agent: rule for rule in agent.subagents if rule.agent in subagents}
        self._definitions = subagents
        self._tools = {delegation_tool_name(name): name for name in self._rules}
        self._is_single = shares_a_tool(agent, len(self._rules))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """One tool for each agent, with its inputs as arguments; or the single one, where the agent's file says so."""
        if not self._rules:
            return ()
        if self._is_single:
            return (self._single(),)
        return tuple(
            ToolSpec(name=tool, description=self._described(name), parameters=self._definitions[name].inputs_schema)
            for tool, name in self._tools.items()
        )

    def is_delegation(self, call: ToolCall) -> bool:
        """Tell whether the call means to delegate, to whomever."""
        return bool(self._rules) and _bare(call.name).startswith(DELEGATION_PREFIX)

    def child(self, call: ToolCall, job: str) -> ChildJob:
        """Return the child ``job`` that ``call`` asks for. Raises ``ToolError`` with a text for the model."""
        name = self._permitted(call)
        inputs = self._inputs(call, name)
        objective = _objective(inputs)
        context = self._leg.context.advance(name, objective, history=History(mode="none"))
        return ChildJob(
            job=job,
            call_id=call.id,
            agent=name,
            objective=objective,
            context=context.model_copy(
                update={"calls": (), "graphs": (), "within": ()}
            ),  # a child's callers are its own
            inputs=inputs,
            bounds=self._bounds(),
            max_depth=self._max_depth(context.metadata.chain_depth),
            timeout_s=self._rules[name].timeout or self._agent.delegation.timeout,
            untrusted=self._untrusted.source,
        )

    def agent_of(self, call: ToolCall) -> str:
        """Return whom a call of this turn has begun a child job of: by the journal, as the caller wrote it."""
        begun = (entry.record for entry in reversed(self._leg.entries) if isinstance(entry.record, Delegated))
        return next((record.agent for record in begun if record.call_id == call.id), "?")

    def next_jobs(self, count: int) -> list[str]:
        """Return the ids of the next ``count`` children of this job."""
        begun = sum(isinstance(entry.record, Delegated) for entry in self._leg.entries)
        return [f"{self._leg.job}.{begun + 1 + n}" for n in range(count)]

    def _permitted(self, call: ToolCall) -> str:
        if _bare(call.name) == SINGLE:
            asked = str(call.args.get(AGENT_NAME) or "")
        else:
            asked = self._tools.get(_bare(call.name)) or _bare(call.name).removeprefix(DELEGATION_PREFIX)
        name = asked if asked in self._rules else agent_meant(asked, self._rules)
        if name is None:
            raise ToolError(f"you may delegate to no agent {asked!r}: {', '.join(map(repr, self._rules))} are there")
        return name

    def _inputs(self, call: ToolCall, name: str) -> dict[str, Any]:
        args = dict(call.args)
        if _bare(call.name) == SINGLE:
            given = args.get("inputs")
            args = {"objective": args.get("objective"), **(given if isinstance(given, Mapping) else {})}
        definition = self._definitions[name]
        inputs = called_with(definition, args)
        if found := problems(inputs, definition.inputs_schema):
            raise ToolError("\n".join([f"agent {name!r} cannot be called so:", *(f"- {one}" for one in found)]))
        return inputs

    def _max_depth(self, depth: int) -> int:
        """Return how deep the chain may get in the child, which begins at ``depth``; raises ``ToolError``."""
        most = max_depth_for(self._agent, self._leg.request)
        if depth > most:
            raise ToolError(f"MAX_DEPTH_EXCEEDED: a chain is at most {most} agents deep here, do it yourself")
        return most

    def _bounds(self) -> tuple[ToolRules, ...]:
        return (*self._leg.request.bounds, self._agent.rules)

    def _described(self, name: str) -> str:
        rule: Subagent = self._rules[name]
        lead = f"Let agent {name} do a part of the work, and get its result."
        return "\n".join(part for part in (lead, rule.description, self._definitions[name].description) if part)

    def _single(self) -> ToolSpec:
        agents = "\n".join(f"- {name}: {self._definitions[name].description}" for name in self._rules)
        return ToolSpec(
            name=SINGLE,
            description=f"Let another agent do a part of the work, and get its result. Agents:\n{agents}",
            parameters={
                "type": "object",
                "properties": {
                    AGENT_NAME: {"type": "string", "enum": list(self._rules)},
                    "objective": {
                        "type": "string",
                        "description": "What the agent is to achieve; it knows nothing else.",
                    },
                    "inputs": {"type": "object", "description": "Further inputs of the agent, by name."},
                },
                "required": [AGENT_NAME, "objective"],
            },
        )


def result_of(call: ToolCall, view: JobView, fence: str) -> ToolResult:
    """Return what a child job's end is for the call that began it; its words stand between marks with ``fence``."""
    is_error = view.status != "done"
    text = view.result or ""
    if not view.is_over:
        text = "Not needed any more: enough of the others have succeeded."
    elif is_error:
        how = "unfinished" if view.status == "unfinished" else f"ended without a result ({view.status}, {view.reason})"
        text = f"{how}: {text}"
    content = quoted_result(view.agent, text, fence=fence, is_error=is_error)
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=is_error)


def _objective(inputs: Mapping[str, Any]) -> str:
    """Return what a child is asked for in words: its objective, or all its inputs where there is none."""
    said = inputs.get("objective")
    if isinstance(said, str) and said.strip():
        return said[:MAX_OBJECTIVE]
    return json.dumps(inputs, ensure_ascii=False)[:MAX_OBJECTIVE]


def _bare(name: str) -> str:
    """Take the namespace off that some models put before a tool's name."""
    return re.split(r"[:.]", name)[-1]


def enough(views: Sequence[JobView], need: int) -> bool:
    """Tell whether a parent can go on: all have ended, or as many as it needs with success."""
    done = sum(view.status == "done" for view in views)
    return all(view.is_over for view in views) or (need > 0 and done >= need)
