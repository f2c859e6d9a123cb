"""How a call is put to the people who are to approve it."""

from collections.abc import Mapping
from dataclasses import replace

from ekiden.shared.approvals import ApprovalView
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.messages import ToolCall
from ekiden.shared.policy.decision import Decision
from ekiden.shared.risk import Risk
from ekiden.workers.tools.base import Tool

__all__ = ["DEFAULT_TIMEOUT_S", "Asking"]

DEFAULT_TIMEOUT_S = 86_400.0
"""How long an answer is waited for where nobody says."""


class Asking:
    """Says of a call what people need to decide: how risky it is, in the words of the agent's file, for how long."""

    def __init__(self, agent: AgentDefinition, tools: Mapping[str, Tool]) -> None:
        self._agent = agent
        self._tools = tools

    def risk_of(self, call: ToolCall, decision: Decision) -> Risk:
        """Return how much the call can do: as the rules judge this one, or as its tool says of all."""
        if decision.risk is not None:
            return decision.risk
        return tool.meant_by(call.args).risk if (tool := self._tools.get(call.name)) is not None else "medium"

    def put(self, view: ApprovalView, call: ToolCall, decision: Decision) -> ApprovalView:
        """Return ``view`` with what people need to decide."""
        confirmation = self._agent.confirmation
        is_its = confirmation is not None and confirmation.requires(call.name)
        text = confirmation.text(call.name, call.args) if confirmation is not None and is_its else ""
        timeout_s = decision.timeout_s
        if timeout_s is None:
            timeout_s = confirmation.timeout if confirmation is not None and is_its else DEFAULT_TIMEOUT_S
        risk = self.risk_of(call, decision)
        return replace(view, risk=risk, text=view.text or text, timeout_s=timeout_s)
