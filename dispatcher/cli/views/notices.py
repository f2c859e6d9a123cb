"""What people are told of the steps that are no words of an agent: moves of control, delegations, refusals, state."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from ekiden.dispatcher.journal.story_reader import decision_text
from ekiden.dispatcher.playable import PLAYED
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Ended,
    HandedOff,
    LastTurn,
    LoopDetected,
    Noticed,
    Nudged,
    Refused,
    Retried,
    Routed,
    StateChanged,
    Summarised,
)
from ekiden.shared.redaction import preview, redact

__all__ = ["STAGES", "STAND_IN", "TOLD", "Notice", "Notices", "Told", "chain_text", "on_completion", "why_routed"]

STAGES = {"rule": "rule-match", "semantic": "meaning", "llm": "LLM", "fallback": "fallback"}
"""How people are told of the routing's stages."""
STAND_IN = "scripted"
"""The model that stands in for one, by name."""

Told = Refused | Nudged | LoopDetected | LastTurn | Summarised | Noticed | ApprovalAsked | Decided | Retried
"""The records that ``Notices.of`` has a line for."""
TOLD: tuple[type[Told], ...] = get_args(Told)

_LONGEST = 120
"""Characters of what an agent said elsewhere."""
_LONGEST_VALUE = 60
_ENDS = {"done": ("ok", "green"), "unfinished": ("unfinished", "yellow"), "cancelled": ("cancelled", "yellow")}


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
    return f"{record.confidence:.0f}% confidence{stand_in}"


def on_completion(reason: str) -> str:
    """Return what an automatic handoff's reason says more than that the agent has completed its task."""
    return reason.removeprefix("completed").removeprefix(": ")


class Notices:
    """Words the notices, with the symbols that can be shown."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self._symbols = symbols

    def move(self, record: HandedOff, agent: str) -> Notice:
        """Say that ``agent`` handed over, gave control back, or had this job begun by another one."""
        context = record.context
        if record.kind == "route":
            edge = f"{context.from_agent} {self._symbols['calls']} {context.to_agent}"
            return Notice("child", f"{edge}: {self.cut(context.reason)}", "bold cyan")
        if (back := context.returned) is not None:
            word = " without a result" if back.is_error else ""
            style = "yellow" if back.is_error else "bold cyan"
            return Notice("return", f"{agent} returned to {context.to_agent}{word}: {self.cut(back.text)}", style)
        edge = f"{context.from_agent} {self._symbols['arrow']} {context.to_agent}"
        if record.call_id is None:
            why = on_completion(context.reason)
            return Notice("handoff", f"{edge} (on completion){f': {redact(why)}' if why else ''}", "bold cyan")
        return Notice("handoff", f"{edge}: {redact(context.reason)}", "bold cyan")

    def of(self, record: Told, agent: str) -> Notice:
        """Return the line of a step that is no move of control."""
        match record:
            case Refused(name=name, code=code, message=message):
                return Notice("stop", f"{agent}: {name} refused ({code}): {redact(message)}", "yellow")
            case LoopDetected(text=text):
                return Notice("stop", f"{agent} is told: {self.cut(text)}", "yellow")
            case LastTurn(reason=reason, error=error):
                return Notice("stop", f"{agent} has one last turn ({reason}): {self.cut(error)}", "yellow")
            case Nudged(text=text):
                return Notice("note", f"{agent} is told: {self.cut(text)}", "dim")
            case Summarised(text=text):
                words = len(text.split())
                return Notice("note", f"{agent} gets a summary of what came before ({words} words)", "dim")
            case Noticed(text=text):
                return Notice("note", text, "yellow")
            case Retried():
                return Notice("note", f"{agent} goes on: the job is retried", "yellow")
            case ApprovalAsked() | Decided():
                return self._approval(record)

    def _approval(self, record: ApprovalAsked | Decided) -> Notice:
        if isinstance(record, ApprovalAsked):
            text = f"{record.agent} waits for a person: {record.tool} (approval {record.id})"
            return Notice("wait", text, "yellow")
        style = "yellow" if record.status in ("denied", "expired") else "dim"
        return Notice("person", f"{record.tool} {self.cut(decision_text(record))}", style)

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

    def end(self, record: Ended, agent: str, *, is_said: bool) -> Notice:
        """Say how the job has ended; ``is_said``: its answer has been shown."""
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
        """Return the first line of a text, cut where it is long."""
        first = next(filter(None, map(str.strip, text.splitlines())), "")
        return preview(first, _LONGEST, self._symbols["dots"])


def chain_text(agents: Sequence[str], arrow: str = "→") -> str:
    """Return a chain in one line: ``user → debugger → code-fixer``."""
    return f" {arrow} ".join(agents)
