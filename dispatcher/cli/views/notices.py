"""What people are told of the steps that are no words of an agent: moves of control, delegations, refusals, state."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from ekiden.dispatcher.cli.views.approvals import how_to_answer
from ekiden.dispatcher.journal.actors import Actors
from ekiden.dispatcher.journal.story_reader import decision_text
from ekiden.dispatcher.playable import PLAYED
from ekiden.shared.approvals import ANSWER_ID
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Ended,
    FellBack,
    Forked,
    Guarded,
    HandedOff,
    Hooked,
    LastTurn,
    LegSuspended,
    LimitNear,
    LoopDetected,
    NodeFinished,
    Noticed,
    Nudged,
    Recalled,
    Refused,
    Repairing,
    Retried,
    Routed,
    StateChanged,
    Summarised,
)
from ekiden.shared.redaction import preview, redact

__all__ = [
    "FOR_CHILDREN",
    "STAGES",
    "STAND_IN",
    "TOLD",
    "Notice",
    "Notices",
    "Told",
    "chain_text",
    "forked_text",
    "head_of",
    "on_completion",
    "why_routed",
]

STAGES = {"rule": "rule-match", "semantic": "meaning", "llm": "LLM", "fallback": "fallback"}
"""How people are told of the routing's stages."""
STAND_IN = "scripted"
"""The model that stands in for one, by name."""

Told = (
    Refused
    | Nudged
    | LimitNear
    | LoopDetected
    | LastTurn
    | Hooked
    | Guarded
    | Repairing
    | Summarised
    | FellBack
    | NodeFinished
    | Noticed
    | Recalled
    | ApprovalAsked
    | Decided
    | Forked
)
"""The records that ``Notices.of`` has a line for."""
TOLD: tuple[type[Told], ...] = get_args(Told)

FOR_CHILDREN = "waits for its child jobs"

_LONGEST = 120
"""Characters of what an agent said elsewhere."""
_LONGEST_VALUE = 60
_LONGEST_FAULT = 300
_ENDS = {"done": ("ok", "green"), "unfinished": ("unfinished", "yellow"), "cancelled": ("cancelled", "yellow")}

_WHY_NOT: Mapping[FallbackCause, str] = {
    "unavailable": "is not available",
    "quota": "has no quota left",
    "refused": "refuses",
    "limit": "has no room",
}


class Notice(NamedTuple):
    """A line, the name of the symbol that it begins with, and how a terminal shows it."""

    symbol: str
    text: str
    style: str = ""


def why_routed(record: Routed) -> str:
    """Return how sure the router was, or what the session's policy said."""
    decided = next((stage for stage in reversed(record.stages) if stage.decided), None)
    if decided is not None and decided.stage == "session":
        return decided.note
    if decided is not None and decided.stage == PLAYED:
        return f"{record.confidence:.0f}% confidence; {decided.note}"
    stand_in = f", by the {STAND_IN} stand-in for a model" if decided and decided.model == STAND_IN else ""
    unheard = next((f"; {stage.note}" for stage in record.stages if stage.stage == "llm" and not stage.decided), "")
    near = f"; about as likely: {', '.join(record.near)}" if record.near else ""
    return f"{record.confidence:.0f}% confidence{stand_in}{unheard}{near}"


def forked_text(record: Forked) -> str:
    """Say where a fork comes from, and what is otherwise in it."""
    replies = f"{record.replies} answer{'s' * (record.replies != 1)} reused"
    at = f", commit {record.commit[:12]} checked out" if record.commit else ""
    agents = f", with the agents of catalog {record.catalog[:12]}" if record.catalog else ""
    charge = f", {record.agent} put in charge" if record.agent else ""
    added = f"; the user adds: {preview(redact(record.prompt), _LONGEST)}" if record.prompt else ""
    return f"forked from job {record.job} at {record.seq}: {replies}{charge}{agents}{at}{added}"


def head_of(text: str) -> str:
    """Return the first line of a text; all on one, where that ends in a colon: by itself it says nothing."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return " ".join(lines if lines and lines[0].endswith((":", "：")) else lines[:1])


def on_completion(reason: str) -> str:
    """Return what an automatic handoff's reason says more than that the agent has completed its task."""
    return reason.removeprefix("completed").removeprefix(": ")


class Notices:
    """Words the notices, with the symbols that can be shown."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self._symbols = symbols

    def routed(self, record: Routed) -> list[Notice]:
        """Say who was chosen first, by which stage, and how sure that is."""
        if record.stage == "agent":
            return [Notice("route", f"Routing as asked to: {record.agent}", "bold")]
        stage = STAGES.get(record.stage, record.stage)
        chosen = Notice("route", f"Routing via {stage} to: {record.agent} ({why_routed(record)})", "bold")
        unsure = next((one for one in record.stages if one.stage == "rule" and one.agent and not one.decided), None)
        if unsure is None or record.stage == "rule":
            return [chosen]
        text = f"Rule confidence too low ({unsure.confidence:.0f}%), using {stage} routing"
        return [Notice("agent", text, "dim"), chosen]

    def move(self, record: HandedOff, agent: str, to: str) -> Notice:
        """Say that ``agent`` handed over, gave control back, was begun by another one, or went along a graph.

        ``to``: who has control now.
        """
        context = record.context
        if record.kind == "route":
            edge = f"{context.from_agent} {self._symbols['calls']} {to}"
            return Notice("child", f"{edge}: {self.cut(context.reason)}", "bold cyan")
        if (back := context.returned) is not None:
            word = " without a result" if back.is_error else ""
            style = "yellow" if back.is_error else "bold cyan"
            return Notice("return", f"{agent} returned to {to}{word}: {self.cut(back.text)}", style)
        if record.kind == "edge":
            return Notice("arrow", f"{context.graphs[-1].graph}: {redact(context.reason)}", "bold cyan")
        edge = f"{agent} {self._symbols['arrow']} {to}"
        if record.call_id is None and context.reason.startswith("completed"):  # else a user has put it in charge
            why = on_completion(context.reason)
            return Notice("handoff", f"{edge} (on completion){f': {redact(why)}' if why else ''}", "bold cyan")
        return Notice("handoff", f"{edge}: {redact(context.reason)}", "bold cyan")

    def of(self, record: Told, agent: str) -> Notice:
        """Return the line of a step that is no move of control."""
        match record:
            case Refused(name=name, code=code, message=message):
                return Notice("stop", f"{agent}: {name} refused ({code}): {redact(message)}", "yellow")
            case LastTurn(reason=reason, error=error):
                return Notice("stop", f"{agent} has one last turn ({reason}): {self.cut(error)}", "yellow")
            case Nudged(text=text) | LimitNear(text=text) | LoopDetected(text=text):
                symbol, style = ("stop", "yellow") if isinstance(record, LoopDetected) else ("note", "dim")
                return Notice(symbol, f"{agent} is told: {self.cut(text)}", style)
            case Guarded() | Repairing() | NodeFinished():
                return self._node(record) if isinstance(record, NodeFinished) else self._guarded(record)
            case Summarised():
                return self._summary(record, agent)
            case Noticed(text=text) | Hooked(text=text) | Recalled(text=text):
                is_block = isinstance(record, Hooked) and record.block
                return Notice("stop" if is_block else "note", text, "yellow")
            case FellBack() | Forked():
                return Notice("note", self._going_on(record), "yellow")
            case ApprovalAsked() | Decided():
                return self._approval(record, agent)

    def _node(self, record: NodeFinished) -> Notice:
        if not record.error:
            return Notice("pass", f"{record.graph}: {record.node} is done", "dim")
        again = ", is tried again" if record.again else ""
        return Notice("fault", f"{record.graph}: {record.node} failed{again}: {self.cut(record.error)}", "yellow")

    def _guarded(self, record: Guarded | Repairing) -> Notice:
        if isinstance(record, Guarded) and record.status in ("passed", "repaired"):
            passed = f"Guardrail passed: {record.rail} ({record.where})"
            is_repaired = record.status == "repaired"
            return Notice("pass", f"Repaired {record.where} passes validation" if is_repaired else passed, "dim")
        errors = (f"\n  - {preview(error, _LONGEST_FAULT, self._symbols['dots'])}" for error in record.errors)
        policy = f"\n  Policy: {record.policy if isinstance(record, Guarded) else 'repair'}"
        if isinstance(record, Repairing):
            policy += f"\n{self._symbols['tool']} Repairing {record.where} with LLM{self._symbols['dots']}"
        return Notice(
            "fault", f"Guardrail violation: {record.rail} ({record.where}){''.join(errors)}{policy}", "yellow"
        )

    def _summary(self, record: Summarised, agent: str) -> Notice:
        if record.place is None:
            words = len(record.text.split())
            return Notice("note", f"{agent} gets a summary of what came before ({words} words)", "dim")
        tokens = f"{record.tokens_before:,} {self._symbols['arrow']} {record.tokens_after:,} tokens"
        if not record.why:
            return Notice("note", f"{agent}'s conversation is compressed: {tokens}", "dim")
        what = "the older part of it is left out" if record.text else "older results are cut"
        text = f"{agent}'s conversation is not compressed ({self.cut(record.why)}): {what}, {tokens}"
        return Notice("note", text, "yellow")

    @staticmethod
    def retried(record: Retried, actors: Actors) -> Notice:
        """Say that the job goes on, and what somebody says of calls that nobody knew of."""
        names = [(actors.call(record.leg, one.call_id, one.job), one.is_done) for one in record.settled]
        said = ", ".join(f"{name} was {'' if is_done else 'not '}done" for name, is_done in names)
        text = f"{actors.of(record.leg)} goes on: the job is retried"
        return Notice("note", f"{text}; {record.by or 'somebody'} says: {said}" if said else text, "yellow")

    def _going_on(self, record: FellBack | Forked) -> str:
        if isinstance(record, Forked):
            return forked_text(record)
        return f"{record.model} {_WHY_NOT[record.why]}, {record.to} is asked: {self.cut(record.text)}"

    @staticmethod
    def gives_another_answer(record: Told) -> bool:
        """Tell whether an agent's last words are not what is given: a guardrail, or a person, had them changed."""
        if isinstance(record, Guarded):
            return (record.at, record.status) == ("output", "repaired")
        return isinstance(record, Decided) and record.call_id == ANSWER_ID and record.edited is not None

    @staticmethod
    def waiting(record: LegSuspended) -> str:
        """Say that an agent waits without a worker, and for what."""
        if record.cause == "limit":
            return f"waits for {record.detail}"
        why = ": ".join(filter(None, (record.cause.replace("_", " "), record.detail)))
        return f"waits {record.delay_s:g} s: {why}"

    def _approval(self, record: ApprovalAsked | Decided, agent: str) -> Notice:
        if isinstance(record, ApprovalAsked):
            how = how_to_answer(record)
            text = f"{agent} waits for a person: {record.tool} (approval {record.id}): {how}"
            return Notice("wait", text, "yellow")
        style = "yellow" if record.status in ("denied", "expired") else "dim"
        return Notice("person", f"{record.tool} {self.cut(decision_text(record))}", style)

    def pause(self, record: LegSuspended, agent: str) -> Notice:
        """Say for what ``agent`` waits, which is nobody's answer."""
        if record.cause == "children":
            return Notice("wait", f"{agent} {FOR_CHILDREN}", "yellow")
        return Notice("wait", f"{agent} {self.waiting(record)}", "yellow")

    def delegation(self, agent: str, children: Sequence[str]) -> Notice:
        """Say whom ``agent`` has called, by their names."""
        count = f"{len(children)} child job{'s' * (len(children) > 1)}"
        return Notice("child", f"{agent} {self._symbols['calls']} {', '.join(children)} ({count})", "bold cyan")

    def child(self, agent: str, objective: str, job: str) -> Notice:
        """Say what an agent was called for."""
        return Notice("child", f"{agent}: {self.cut(objective)} {self._symbols['dot']} job {job}", "dim")

    def end_of_child(self, agent: str, status: str, reason: str, said: str) -> Notice:
        """Say how a child job has ended."""
        symbol, style = _ENDS.get(status, ("failed", "red"))
        how = "" if status == "done" else f" {status}" + (f" ({reason})" if reason else "")
        return Notice(symbol, f"{agent}{how}: {self.cut(said)}", style)

    def end(self, record: Ended, agent: str, *, is_said: bool, is_tie: bool = False) -> Notice:
        """Say how the job has ended.

        ``is_said``: its answer has been shown; ``is_tie``: the user is asked who takes the request.
        """
        if is_tie:
            return Notice("route", record.error or "", "bold")
        match record.status:
            case "done":
                late = f" (in its last turn: {record.reason})" if record.recovered else ""
                answer = " has answered" if is_said else f": {record.answer or ''}"
                return Notice("ok", f"{agent}{late}{answer}", "yellow" if late else "green")
            case "unfinished":
                why = "" if is_said else f": {record.answer or ''}"
                return Notice("unfinished", f"{agent} could not do what was asked{why}", "yellow")
            case "cancelled":
                return Notice("cancelled", record.error or "cancelled", "yellow")
        return Notice("failed", f"{record.status} ({record.reason}): {record.error or ''}", "red")

    def state(self, record: StateChanged) -> Notice:
        """Say which session variables were written, and by which tool."""
        changes = ", ".join(self._change(name, value) for name, value in record.changes.items())
        return Notice("note", f"state: {changes}{f' ({record.by})' if record.by else ''}", "dim")

    def _change(self, name: str, value: object) -> str:
        if value is None:
            return f"{name} taken away"
        return f"{name} = {preview(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE, self._symbols['dots'])}"

    def cut(self, text: str) -> str:
        """Return a text's ``head_of``, cut where it is long."""
        return preview(head_of(text), _LONGEST, self._symbols["dots"])


def chain_text(agents: Sequence[str], arrow: str = "→") -> str:
    """Return a chain in one line: ``user → debugger → code-fixer``."""
    return f" {arrow} ".join(agents)
