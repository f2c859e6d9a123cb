"""How a job's journal is shown as it grows: one class for people, one for programs."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TextIO

from dispatcher.cli.output import Output, one_line
from shared.messages import ToolCall, Usage
from shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Noticed,
    Paused,
    Refused,
    Routed,
    ToolFinished,
)

__all__ = ["JsonView", "PeopleView", "View", "chain_text", "exit_code_of", "view_for"]

_STAND_IN = "scripted"
_NO_ROUTE = 5
_CANCELLED = 130


class View(Protocol):
    """Shows a job to whoever asked for it."""

    def show(self, entry: Entry) -> None:
        """Show a journal entry; they come in order."""
        ...

    def note(self, text: str) -> None:
        """Say something that is not in the journal."""
        ...


def view_for(job: str, *, as_json: bool) -> View:
    """Return the view that the user asked for."""
    return JsonView() if as_json else PeopleView(job, Output())


def exit_code_of(status: str, reason: str | None) -> int:
    """Return what a command ends with when its job has ended so."""
    if status == "done":
        return 0
    if status == "cancelled":
        return _CANCELLED
    return _NO_ROUTE if reason == "NO_ROUTE" else 1


def chain_text(agents: Sequence[str], arrow: str = "→") -> str:
    """Return a chain in one line: ``user → debugger → code-fixer``."""
    return f" {arrow} ".join(agents)


class JsonView:
    """One JSON object per line and entry on standard output; notes go to standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        fields = entry.record.model_dump(mode="json", exclude_none=True)
        self._stream.write(json.dumps({"seq": entry.seq, "at_ms": entry.at_ms, **fields}, ensure_ascii=False) + "\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        """See ``View``."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the program's own output


class PeopleView:
    """What the agents say, do and hand over, as it happens; then the answer and one line of summary."""

    def __init__(self, job: str, output: Output) -> None:
        self._job = job
        self._out = output
        self._agents: dict[int, str] = {}
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._models: set[str] = set()
        self._chain: tuple[str, ...] = ("user",)
        self._usage = Usage()
        self._began_ms: int | None = None
        self._shows: dict[type, Callable[[Any, Entry], None]] = {
            LegStarted: self._leg_started,
            Routed: self._routed,
            ModelReplied: self._model_replied,
            ToolFinished: self._tool_finished,
            HandedOff: self._handed_off,
            Refused: self._refused,
            Noticed: self._noticed,
            Paused: self._paused,
            Ended: self._ended,
        }

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        if isinstance(entry.record, JobRequested):
            self._began_ms = entry.at_ms
        if (show := self._shows.get(type(entry.record))) is not None:
            show(entry.record, entry)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._line("note", text, "yellow")

    def _line(self, symbol: str, text: str, style: str = "") -> None:
        self._out.line(f"{self._out.symbols[symbol]} {text}", style)

    def _agent(self, leg: int) -> str:
        return self._agents.get(leg, "agent")

    def _leg_started(self, record: LegStarted, _: Entry) -> None:
        self._agents[record.leg] = record.agent
        if record.attempt > 1:
            self._line("note", f"{record.agent} goes on: attempt {record.attempt}", "yellow")

    def _routed(self, record: Routed, _: Entry) -> None:
        if record.stage == "agent":
            self._line("route", f"Routing as asked to: {record.agent}", "bold")
            return
        stage = "rule-match" if record.stage == "rule" else record.stage
        self._line("route", f"Routing via {stage} to: {record.agent} ({record.confidence:g}% confidence)", "bold")

    def _model_replied(self, record: ModelReplied, _: Entry) -> None:
        self._usage += record.usage
        if record.model and record.model not in self._models:
            self._models.add(record.model)
            stand_in = " stand-in for a model: no key is needed" if record.model == _STAND_IN else ""
            self._line("note", f"Model: {record.model}{stand_in}", "dim")
        self._calls.update({(record.leg, call.id): call for call in record.message.calls})
        if record.message.calls and (text := record.message.text.strip()):  # without calls it is the answer
            self._out.line(f"{self._agent(record.leg)}: {text}")

    def _tool_finished(self, record: ToolFinished, _: Entry) -> None:
        result = record.result
        call = self._calls.get((record.leg, result.call_id))
        first = next(iter(call.args.values()), "") if call else ""
        about = one_line(f"{result.name} {_as_text(first)}".rstrip(), 90, self._out.symbols["dots"])
        failure = f": {one_line(result.content, 120, self._out.symbols['dots'])}" if result.is_error else ""
        self._line("tool", f"{about} ({record.duration_ms} ms){failure}", "red" if result.is_error else "dim")

    def _handed_off(self, record: HandedOff, _: Entry) -> None:
        context = record.context
        self._chain = context.metadata.handoff_chain
        if record.call_id is not None:
            arrow = self._out.symbols["arrow"]
            self._line("handoff", f"{context.from_agent} {arrow} {context.to_agent}: {context.reason}", "bold cyan")

    def _refused(self, record: Refused, _: Entry) -> None:
        text = f"{self._agent(record.leg)}: {record.name} refused ({record.code}): {record.message}"
        self._line("stop", text, "yellow")

    def _noticed(self, record: Noticed, _: Entry) -> None:
        self._line("note", record.text, "yellow")

    def _paused(self, record: Paused, _: Entry) -> None:
        detail = f": {record.detail}" if record.detail else ""
        cause = record.cause.replace("_", " ")
        self._line("wait", f"{self._agent(record.leg)} waits {record.delay_s:g} s: {cause}{detail}", "yellow")

    def _ended(self, record: Ended, entry: Entry) -> None:
        if record.status == "done":
            self._out.line()
            self._line("ok", f"{self._agent(record.leg)}: {record.answer or ''}", "green")
        elif record.status == "cancelled":
            self._line("cancelled", record.error or "cancelled", "yellow")
        else:
            self._line("failed", f"{record.status} ({record.reason}): {record.error or ''}", "red")
        self._out.line()
        self._out.line(self._summary(entry), "dim")

    def _summary(self, last: Entry) -> str:
        seconds = (last.at_ms - (self._began_ms or last.at_ms)) / 1000
        tokens = self._usage.input_tokens + self._usage.output_tokens
        chain = chain_text(self._chain, self._out.symbols["arrow"])
        return f" {self._out.symbols['dot']} ".join([chain, f"{seconds:.1f} s", f"{tokens} tokens", f"job {self._job}"])


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
