"""What of a leg's calls waits for persons, and what persons have said of them."""

import json
from dataclasses import replace
from typing import Any

from ekiden.shared.approvals import ApprovalView, digest_of
from ekiden.shared.conversation import Turn
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Suspended
from ekiden.shared.policy.decision import ALLOWED, Decision
from ekiden.shared.records import ApprovalAsked, Decided
from ekiden.shared.relay.leg import Leg
from ekiden.shared.risk import RISKS
from ekiden.workers.asking import Asking
from ekiden.workers.deciding import NOBODY_IS_ASKED

__all__ = ["Approvals", "again", "denied", "telling_changes"]

CHANGED = "A person let this run with other arguments than yours: "
CHANGED_BY_HOOK = "A hook let this run with other arguments than yours: "
CHANGED_BY_GUARDRAIL = "A guardrail had your arguments repaired, and let this run with these: "
GUARDRAILS = "guardrails"
"""What rule it is that guardrails ask by."""
NOT_ANOTHER = (
    "not executed: a person put arguments in the place of yours for which another approval is needed. Make that call "
    "yourself if it is what you want"
)
UNENFORCEABLE = (
    "not executed: {0!r} needs the approval of certain people ({1}), and nobody can tell here who answers: the server "
    "has one user for all, and nothing is signed. Go on without it"
)
WORKER_LOST = "its worker was lost while it ran, so it may have had its effect: should it run again?"


class Approvals:
    """Binds decisions to the calls that they were made for, and collects what is yet to be asked."""

    def __init__(self, leg: Leg, definition: str, asking: Asking, *, knows_people: bool = True) -> None:
        """Collect for ``leg``.

        Args:
            leg: Whose calls they are.
            definition: The digest of the agent's definition.
            asking: Says how calls are put to people.
            knows_people: Whether it can be told who answers: the server has users, or answers are signed.
        """
        self._leg = leg
        self._definition = definition
        self._asking = asking
        self._knows_people = knows_people
        self._wanted: list[ApprovalView] = []

    @property
    def are_wanted(self) -> bool:
        """Whether something is to be asked before the turn can go on."""
        return bool(self._wanted)

    def said_of(self, call: ToolCall) -> Decided | None:
        """Return what was decided of exactly this call of this definition, if anything was, and it was not used yet."""
        turn = self._leg.conversation.turns[-1]
        asked, said = turn.asked.get(call.id), turn.decisions.get(call.id)
        if asked is None or said is None or call.id in turn.started:
            return None
        is_bound = said.id == asked.id and said.digest == asked.digest == digest_of(call.name, call.args)
        return said if is_bound and (asked.agent, asked.definition) == (self._leg.agent, self._definition) else None

    def judged(self, call: ToolCall, decision: Decision) -> Decision:
        """Return what a decision of rules comes to, with what persons have said. A rule's denial always counts."""
        if decision.verdict == "deny":
            return decision
        if decision.verdict == "ask" and (decision.approvers or decision.separate) and not self._knows_people:
            return Decision("deny", UNENFORCEABLE.format(call.name, decision.rule), decision.rule)
        if (said := self.said_of(call)) is not None:
            return ALLOWED if said.status in ("approved", "answered") else Decision("deny", denied(call, said))
        return ALLOWED if decision.verdict == "ask" and self._is_settled(call, decision) else decision

    def with_guardrails(self, call: ToolCall, decision: Decision, asked: str) -> Decision:
        """Return what a decision comes to where guardrails want a person to see ``asked``; empty: they do not.

        Only what was said of this very call counts: neither a word for all such calls, nor one given beforehand.
        """
        if not asked or decision.verdict == "deny":
            return decision
        if (said := self.said_of(call)) is not None:
            is_let = said.status in ("approved", "answered")
            return decision if is_let else Decision("deny", denied(call, said), GUARDRAILS)
        if self._leg.request.when_asked == "deny":
            return Decision("deny", f"{NOBODY_IS_ASKED.format(call.name)} ({asked})", GUARDRAILS)
        if decision.verdict == "ask":
            return replace(decision, reason=f"{decision.reason}; {asked}" if decision.reason else asked)
        return replace(decision, verdict="ask", reason=asked, rule=GUARDRAILS)

    def put_to_people(self, call: ToolCall, asked: str) -> ToolCall | Suspended | None:
        """Return a call as a person has let it pass, or the pause in which one is asked; None: nobody has let it pass.

        It stands for what guardrails want to be asked about and is no call of the model: an answer, a handoff of the
        file. Other arguments that a person puts in the place of these must have their names and kinds.
        """
        decision = self.with_guardrails(call, ALLOWED, asked)
        if decision.verdict == "ask":
            self.ask(call, decision)
            return self.suspension()
        said = self.with_changes(call)
        kinds = [{name: type(value) for name, value in one.args.items()} for one in (call, said)]
        return said if decision.verdict == "allow" and kinds[0] == kinds[1] else None

    def with_changes(self, call: ToolCall) -> ToolCall:
        """Return the call with the arguments that a person put in the place of the model's, if one did."""
        turn = self._leg.conversation.turns[-1]
        said = turn.decisions.get(call.id)
        if said is None or said.edited is None or said.status != "approved":
            return call
        return call.model_copy(update={"args": dict(said.edited)})

    def why_not_changed(self, call: ToolCall, decision: Decision) -> str:
        """Say why a call must not run with a person's arguments, of which the rules say ``decision``; empty: it may."""
        if decision.verdict == "deny":
            return f"not executed: a person put other arguments in the place of yours. {decision.reason}"
        asked = self._leg.conversation.turns[-1].asked[call.id]
        is_stricter = decision.verdict == "ask" and not _are_the_same(asked, decision)
        return NOT_ANOTHER if is_stricter else ""

    def ask(self, call: ToolCall, decision: Decision, **question: Any) -> None:
        """Note that a person is to be asked, when the leg suspends; ``question``: what else the view says, of one."""
        asked_before = sum(isinstance(entry.record, ApprovalAsked) for entry in self._leg.entries)
        view = ApprovalView(
            id=f"{self._leg.job}:{asked_before + len(self._wanted) + 1}",
            job=self._leg.job,
            leg=self._leg.number,
            agent=self._leg.agent,
            definition=self._definition,
            call_id=call.id,
            tool=call.name,
            args=call.args,
            digest=digest_of(call.name, call.args),
            reason=decision.reason,
            rule=decision.rule,
            approvers=decision.approvers,
            separate=decision.separate,
            **question,
        )
        self._wanted.append(self._asking.put(view, call, decision))

    def suspension(self) -> Suspended | None:
        """Return the pause in which persons are asked all that was noted; None where there is nothing to ask."""
        if not self._wanted:
            return None
        wanted, self._wanted = tuple(self._wanted), []
        named = ", ".join(f"{one.tool} ({one.id})" for one in wanted)
        return Suspended("approval", min(one.timeout_s for one in wanted), named, approvals=wanted)

    def _is_settled(self, call: ToolCall, decision: Decision) -> bool:
        """Tell whether a person has approved such calls for the whole job: of this tool, no riskier, by such a rule."""
        records = [entry.record for entry in self._leg.entries]
        always = {one.id for one in records if isinstance(one, Decided) and one.always_for_job}
        risk = self._asking.risk_of(call, decision)
        return any(
            isinstance(one, ApprovalAsked)
            and one.id in always
            and one.tool == call.name
            and _are_the_same(one, decision)
            and RISKS.index(risk) <= RISKS.index(one.risk)
            for one in records
        )


def again(decision: Decision) -> Decision:
    """Return how a call is asked about that was approved, begun and lost."""
    return decision if decision.verdict == "deny" else replace(decision, verdict="ask", reason=WORKER_LOST)


def denied(call: ToolCall, said: Decided) -> str:
    """Return what the model is told of a call that a person, or nobody, has approved."""
    return f"Tool execution denied by user: {call.name}" + (f": {said.why}" if said.why else "")


def telling_changes(turn: Turn, ran: ToolCall, result: ToolResult) -> ToolResult:
    """Return the result of a call with what the model does not know: whose arguments it ran with, what hooks say."""
    said, told = turn.hooked.get(ran.id), list[str]()
    if ran.args != turn.call(ran.id).args:
        told.append(CHANGED + json.dumps(ran.args, ensure_ascii=False))
    elif ran.id in turn.repaired:
        told.append(CHANGED_BY_GUARDRAIL + json.dumps(ran.args, ensure_ascii=False))
    elif said is not None and "args" in said.changed:
        told.append(CHANGED_BY_HOOK + json.dumps(ran.args, ensure_ascii=False))
    return result.with_notes(told, [said.context] if said and said.context else [])


def _are_the_same(asked: ApprovalAsked, decision: Decision) -> bool:
    """Tell whether the same people may answer."""
    return (asked.approvers, asked.separate) == (decision.approvers, decision.separate)
