"""What is decided of each call in a leg, and by whom: untrusted text, the policy, who asked for the job beforehand."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ekiden.shared.messages import ToolCall
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.relay.leg import Leg
from ekiden.workers.tools.base import Tool
from ekiden.workers.untrusted import Untrusted

__all__ = ["Deciding"]


class Deciding:
    """Decides about the calls of one leg."""

    def __init__(self, leg: Leg, policy: Policy, tools: Mapping[str, Tool], untrusted: Untrusted, cwd: Path) -> None:
        """``policy``: the operator's, the folder's and the agent's together."""
        self._leg = leg
        self._policy = policy
        self._tools = tools
        self._untrusted = untrusted
        self._cwd = cwd

    def __call__(self, call: ToolCall) -> Decision:
        """Return what holds of a call that is in order."""
        if refusal := self._untrusted.refusal(call, self._tools.get(call.name)):
            return Decision("deny", refusal, "tools.after_untrusted")
        use = self._use(call)
        decision = self._policy.decide(use)
        return self._approved_beforehand(use, decision) if decision.verdict == "ask" else decision

    def _use(self, call: ToolCall) -> ToolUse:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolUse(call.name, call.args, self._leg.agent, cwd=self._cwd, is_control=True)
        says = {"read_only": tool.read_only, "idempotent": tool.idempotent}
        return ToolUse(
            tool.rule_name,
            call.args,
            self._leg.agent,
            tool_risk=tool.risk,
            annotations=says,
            package=tool.package,
            cwd=self._cwd,
        )

    def _approved_beforehand(self, use: ToolUse, decision: Decision) -> Decision:
        """Take the word of whoever asked for the job, where that is a person who may decide."""
        if use.risk not in self._leg.request.approve or decision.approvers or decision.separate:
            return decision
        return replace(ALLOWED, reason=f"whoever asked for the job approves {use.risk!r} calls", rule="--approve")
