"""A job as people see it: what the agents say, do and hand over, as it happens."""

import json
import time
from collections.abc import Callable
from typing import Any

from dispatcher.cli.output import Output, one_line
from dispatcher.cli.show import chain_text
from dispatcher.cli.utterance import Utterance
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
    Retried,
    Routed,
    ToolFinished,
    ToolStarted,
)
from shared.stores.base import LivePiece

__all__ = ["PeopleView"]

_STAND_IN = "scripted"
_STAGES = {"rule": "rule-match", "semantic": "meaning", "llm": "LLM", "fallback": "fallback"}
"""How people are told of the routing's stages."""
_SLOW_S = 1.0
"""How long nothing may happen before a terminal shows what is waited for."""


class PeopleView:
    """What the agents say, do and hand over, as it happens; then one line of summary."""

    def __init__(self, job: str, output: Output, *, thoughts: bool = False, models: set[str] | None = None) -> None:
        self._job = job
        self._out = output
        self._thoughts = thoughts
        self._agents: dict[int, str] = {}
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._models = set[str]() if models is None else models
        """Those that were named already."""
        self._chain: tuple[str, ...] = ("user",)
        self._usage = Usage()
        self._began_ms: int | None = None
        self._utterance: Utterance | None = None
        self._answer = ""
        self._activity = "waiting"
        self._since = time.monotonic()
        self._shows: dict[type, Callable[[Any, Entry], None]] = {
            LegStarted: self._leg_started,
            Routed: self._routed,
            ModelReplied: self._model_replied,
            ToolFinished: self._tool_finished,
            HandedOff: self._handed_off,
            Refused: self._refused,
            Noticed: self._noticed,
            Paused: self._paused,
            Retried: self._retried,
            Ended: self._ended,
        }

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self.learn(entry)
        if (show := self._shows.get(type(entry.record))) is not None:
            show(entry.record, entry)

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        match entry.record:
            case JobRequested():
                self._began_ms = entry.at_ms
            case LegStarted(leg=leg, agent=agent):
                self._agents[leg] = agent
                self._now(f"{agent} thinks" if leg else "routing")
            case ModelReplied(leg=leg, message=message, usage=usage):
                self._usage += usage
                self._calls.update({(leg, call.id): call for call in message.calls})
                self._answer = message.text.strip()
            case ToolStarted(leg=leg, call_id=call_id, name=name):
                self._now(self._about(leg, call_id, name))
            case ToolFinished(leg=leg) | Refused(leg=leg):
                self._now(f"{self._agent(leg)} thinks")
            case HandedOff(context=context):
                self._chain = context.metadata.handoff_chain
                self._now(f"{context.to_agent} is waited for")
            case Paused(cause=cause):
                self._now(f"paused: {cause.replace('_', ' ')}")
            case Ended():
                self._now("")
            case _:
                pass

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._since = time.monotonic()
        if self._utterance is not None and (piece.restart or not self._utterance.is_of(piece)):
            self._break_off()
        if self._utterance is None:
            self._utterance = Utterance(self._out, self._agent(piece.leg), piece, thoughts=self._thoughts)
        self._utterance.add(piece)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._line("note", text, "yellow")

    def tick(self) -> None:
        """See ``View``."""
        seconds = time.monotonic() - self._since
        if self._activity and seconds >= _SLOW_S:
            symbols = self._out.symbols
            self._out.progress(f"{symbols['wait']} {self._activity} {symbols['dot']} {seconds:.0f} s")

    def _now(self, activity: str) -> None:
        self._activity, self._since = activity, time.monotonic()

    def _line(self, symbol: str, text: str, style: str = "") -> None:
        self._out.line(f"{self._out.symbols[symbol]} {text}", style)

    def _agent(self, leg: int) -> str:
        return self._agents.get(leg, "agent")

    def _break_off(self) -> None:
        if self._utterance is not None:
            self._utterance.break_off()
            self._utterance = None

    def _leg_started(self, record: LegStarted, _: Entry) -> None:
        self._break_off()
        if record.attempt > 1:
            self._line("note", f"{record.agent} goes on: attempt {record.attempt}", "yellow")

    def _routed(self, record: Routed, _: Entry) -> None:
        if record.stage == "agent":
            self._line("route", f"Routing as asked to: {record.agent}", "bold")
            return
        stage = _STAGES.get(record.stage, record.stage)
        unsure = next((one for one in record.stages if one.stage == "rule" and one.agent and not one.decided), None)
        if unsure is not None and record.stage != "rule":
            self._line("agent", f"Rule confidence too low ({unsure.confidence:.0f}%), using {stage} routing", "dim")
        self._line("route", f"Routing via {stage} to: {record.agent} ({record.confidence:.0f}% confidence)", "bold")

    def _model_replied(self, record: ModelReplied, _: Entry) -> None:
        utterance = self._utterance
        if utterance is None or not utterance.is_turn(record.leg, record.turn):
            self._break_off()
            utterance = Utterance.of_turn(
                self._out, self._agent(record.leg), record.leg, record.turn, thoughts=self._thoughts
            )
        self._utterance = None
        utterance.end(record.message)
        if record.model and record.model not in self._models:
            self._models.add(record.model)
            stand_in = " stand-in for a model: no key is needed" if record.model == _STAND_IN else ""
            self._line("note", f"Model: {record.model}{stand_in}", "dim")

    def _about(self, leg: int, call_id: str, name: str) -> str:
        call = self._calls.get((leg, call_id))
        first = next(iter(call.args.values()), "") if call else ""
        return one_line(f"{name} {_as_text(first)}".rstrip(), 90, self._out.symbols["dots"])

    def _tool_finished(self, record: ToolFinished, _: Entry) -> None:
        result = record.result
        about = self._about(record.leg, result.call_id, result.name)
        failure = f": {one_line(result.content, 120, self._out.symbols['dots'])}" if result.is_error else ""
        self._line("tool", f"{about} ({record.duration_ms} ms){failure}", "red" if result.is_error else "dim")

    def _handed_off(self, record: HandedOff, _: Entry) -> None:
        context = record.context
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

    def _retried(self, record: Retried, _: Entry) -> None:
        self._line("note", f"{self._agent(record.leg)} goes on: the job is retried", "yellow")

    def _ended(self, record: Ended, entry: Entry) -> None:
        self._break_off()
        if record.status == "done":
            self._out.line()
        self._say_end(record)
        self._out.line(self._summary(entry), "dim")

    def _say_end(self, record: Ended) -> None:
        if record.status == "done":
            answer = " has answered" if self._is_said(record) else f": {record.answer or ''}"
            self._line("ok", f"{self._agent(record.leg)}{answer}", "green")
        elif record.status == "cancelled":
            self._line("cancelled", record.error or "cancelled", "yellow")
        else:
            self._line("failed", f"{record.status} ({record.reason}): {record.error or ''}", "red")

    def _is_said(self, record: Ended) -> bool:
        """Whether the answer is what the model said last, so that it has been shown."""
        return (record.answer or "").strip() == self._answer

    def _summary(self, last: Entry) -> str:
        seconds = (last.at_ms - (self._began_ms or last.at_ms)) / 1000
        tokens = self._usage.input_tokens + self._usage.output_tokens
        chain = chain_text(self._chain, self._out.symbols["arrow"])
        return f" {self._out.symbols['dot']} ".join([chain, f"{seconds:.1f} s", f"{tokens} tokens", f"job {self._job}"])


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
