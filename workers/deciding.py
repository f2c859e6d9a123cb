"""What is decided of each call in a leg, and by whom: untrusted text, the policy, who asked for the job beforehand."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ekiden.shared.definitions.transfer_names import agent_meant, delegation_tool_name, transfer_tool_name
from ekiden.shared.hooks.asking import by_hooks
from ekiden.shared.messages import ToolCall
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.relay.leg import Leg
from ekiden.workers.handoff_targets import AGENT_NAME
from ekiden.workers.tools.base import Tool
from ekiden.workers.untrusted import Untrusted

__all__ = ["Deciding"]

NOBODY_IS_ASKED = "Tool execution denied: {} would have to be approved by a person, and this job asks nobody"

HOOKS = "hooks"
"""What rule it is that hooks decide by."""


class Deciding:
    """Decides about the calls of one leg."""

    def __init__(
        self,
        leg: Leg,
        policy: Policy,
        tools: Mapping[str, Tool],
        untrusted: Untrusted,
        cwd: Path,
        agents: Collection[str] = (),
    ) -> None:
        """``policy``: the operator's, the folder's and the agent's together; ``agents``: whom control may go to."""
        self._leg = leg
        self._policy = policy
        self._tools = tools
        self._untrusted = untrusted
        self._cwd = cwd
        self._agents = agents

    def __call__(self, call: ToolCall) -> Decision:
        """Return what holds of a call that is in order."""
        if refusal := self._untrusted.refusal(call, self._tools.get(call.name)):
            return Decision("deny", refusal, "tools.after_untrusted")
        hooked = self._leg.conversation.turns[-1].hooked.get(call.id)
        if hooked is not None and hooked.block:
            return Decision("deny", f"Tool execution blocked by {by_hooks(hooked.by)}: {hooked.block}", HOOKS)
        use = self._use(call)
        decision = self._policy.decide(use)
        if hooked is not None and hooked.ask and decision.verdict == "allow":
            decision = replace(decision, verdict="ask", reason=f"{by_hooks(hooked.by)}: {hooked.ask}", rule=HOOKS)
        return self._approved_beforehand(use, decision) if decision.verdict == "ask" else decision

    def _use(self, call: ToolCall) -> ToolUse:
        tool = self._tools.get(call.name)
        if tool is None:
            name = _control_name(call, self._agents)
            by = self._leg.request.by or None
            about = (name, call.args, self._leg.agent, by)
            return ToolUse(*about, is_user_claimed=self._leg.request.is_claimed, cwd=self._cwd, is_control=True)
        tool = tool.meant_by(call.args)
        says = {"read_only": tool.read_only, "idempotent": tool.idempotent}
        return ToolUse(
            tool.rule_name,
            call.args,
            self._leg.agent,
            user=self._leg.request.by or None,
            is_user_claimed=self._leg.request.is_claimed,
            tool_risk=tool.risk,
            annotations=says,
            package=tool.package,
            cwd=self._cwd,
        )

    def _approved_beforehand(self, use: ToolUse, decision: Decision) -> Decision:
        """Take the word of whoever asked for the job: where that is a person who may decide, or wants nobody asked."""
        if use.risk not in self._leg.request.approve or decision.approvers or decision.separate:
            if self._leg.request.when_asked == "deny":
                return Decision("deny", NOBODY_IS_ASKED.format(use.tool), "--non-interactive")
            return decision
        return replace(ALLOWED, reason=f"whoever asked for the job approves {use.risk!r} calls", rule="--approve")


def _control_name(call: ToolCall, agents: Collection[str]) -> str:
    """Return the name that rules know a transfer or a delegation by, however the model spells it."""
    asked = call.args.get(AGENT_NAME)
    agent = agent_meant(asked if isinstance(asked, str) else call.name, agents) if "_to_" in call.name else None
    if agent is None:
        return call.name
    return delegation_tool_name(agent) if "delegate" in call.name.casefold() else transfer_tool_name(agent)
