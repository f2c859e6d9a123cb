"""A job as people see it: what the agents say, do and hand over, as it happens."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.notices import FOR_CHILDREN, STAND_IN, TOLD, Notice, Notices, Told, chain_text
from ekiden.dispatcher.cli.views.shown_calls import ShownCalls
from ekiden.dispatcher.cli.views.slow_tools import SlowTools
from ekiden.dispatcher.cli.views.spending import Spending
from ekiden.dispatcher.cli.views.streamed_turn import StreamedTurn
from ekiden.dispatcher.cli.views.tool_output import ToolOutput
from ekiden.dispatcher.journal.activities import Activities, Activity
from ekiden.dispatcher.journal.actors import Actor, Actors
from ekiden.dispatcher.journal.call_states import OPEN, CallState, CallStates
from ekiden.shared.ids import parent_of
from ekiden.shared.messages import Message, ToolResult
from ekiden.shared.once import Once
from ekiden.shared.records import (
    GRAPH,
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    Forked,
    Guarded,
    HandedOff,
    JobRequested,
    LastTurn,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Record,
    Refused,
    Retried,
    Routed,
    StateChanged,
    ToolFinished,
    ToolStarted,
    Unrouted,
)
from ekiden.shared.redaction import preview
from ekiden.shared.stores.views import LivePiece
from ekiden.shared.todos import Todo, listed, todos_of

__all__ = ["TerminalView"]

_SLOW_S = 1.0
"""How long nothing may happen before a terminal shows what is waited for."""
_ACTIVITIES = {"children": FOR_CHILDREN, "approval": "waits for a person", "limit": "waits for its model"}


class TerminalView:
    """What the agents say, do and hand over, as it happens; then one line of summary."""

    _is_tie = False
    _withheld: tuple[StreamedTurn, Message] | None = None  # what guardrails are still to judge

    def __init__(
        self,
        job: str,
        output: Output,
        *,
        thoughts: bool = False,
        models: Once | None = None,
        verbose: bool = False,
        indent: str = "",
        spending: Spending | None = None,
        actor: Actor | None = None,
    ) -> None:
        self._job = job
        self._out = output
        self._thoughts = thoughts
        self._indent = indent
        self._notices = Notices(output.symbols)
        self._actors = Actors(actor)
        self._calls = ShownCalls(output, is_whole=verbose)
        self._models = models or Once()
        """Those that were named already, and what was waited for."""
        self._chain: tuple[str, ...] = ("user",)
        self._spending = spending or Spending()
        self._slow_tools = SlowTools()
        self._begun: list[str] = []
        """Who was called since the leg was taken."""
        self._delegated: dict[tuple[int, str], Delegated] = {}
        """By the call that each was begun for; those without a result yet."""
        self._children: dict[str, _ChildView] = {}
        self._began_ms: int | None = None
        self._turn: StreamedTurn | None = None
        self._answer = ""
        self._tool_output = ToolOutput(output, indent)
        self._changed: dict[str, CallState] = {}
        self._activity = "waiting"
        self._since = time.monotonic()
        self._shows: dict[type, Callable[[Any, Entry], None]] = {
            LegStarted: self._leg_started,
            Routed: self._routed,
            ModelReplied: self._model_replied,
            ToolFinished: self._tool_finished,
            HandedOff: self._handed_off,
            LegSuspended: self._suspended,
            **dict.fromkeys(TOLD, self._tell),
            Retried: lambda record, _: self._say(self._notices.retried(record, self._actors)),
            Ended: self._ended,
            Unrouted: self._unrouted,
        }
        self._states = CallStates()
        self._tells_states = verbose
        if verbose:
            self._shows[StateChanged] = lambda record, _: self._say(self._notices.state(record))

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self.learn(entry)
        if self._tells_states:
            self._tell_states(entry.record)
        if (show := self._shows.get(type(entry.record))) is not None:
            show(entry.record, entry)

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        self._count(entry.record)
        match entry.record:
            case JobRequested() | Forked():
                self._began_ms = entry.at_ms
            case LegStarted(leg=leg):
                self._begun = []
                self._now(f"{self._agent(leg)} thinks" if leg else "routing")
            case ToolStarted(leg=leg, call_id=call_id, name=name):
                self._now(self._calls.about(leg, call_id, name))
            case ToolFinished(leg=leg) | Refused(leg=leg):
                self._now(f"{self._agent(leg)} thinks")
            case HandedOff(leg=leg, context=context):
                self._chain = context.metadata.handoff_chain
                self._now(f"{self._agent(leg + 1)} is waited for")
            case Delegated(leg=leg, call_id=call_id, child=child) as delegated:
                self._begun.append(str(self._actors.below[child]))
                self._delegated[leg, call_id] = delegated
            case LegSuspended(cause=cause):
                self._now(_ACTIVITIES.get(cause, f"paused: {cause.replace('_', ' ')}"))
            case Ended():
                self._now("")

    def _count(self, record: Record) -> None:
        self._actors.note(record)
        self._spending.note(record)
        self._slow_tools.note(record)
        self._calls.note(record)
        if isinstance(record, Forked):
            self._children.clear()  # of the job that has paid for what stands before
        if isinstance(record, ModelReplied):
            self._answer = record.message.text.strip()
        self._changed = self._states.note(record)

    def below(self, job: str) -> "_ChildView":
        """See ``View``."""
        if job not in self._children:
            actor, spending = self._actors.below.get(job), Spending(self._spending)
            self._children[job] = _ChildView(job, self._out, spending, f"{self._indent}  ", actor)
        return self._children[job]

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        if piece.call:
            self._live_of_tool(piece)
            return
        self._since = time.monotonic()
        if self._turn is not None and (piece.restart or not self._turn.is_of(piece)):
            self._break_off(anew=self._turn.is_turn(piece.leg, piece.turn))
        if self._turn is None:
            self._turn = StreamedTurn(self._out, self._agent(piece.leg), piece, thoughts=self._thoughts)
        self._turn.add(piece)

    def _live_of_tool(self, piece: LivePiece) -> None:
        """Show what a tool says, and at the bottom of the terminal how far it is."""
        name = self._calls.about(piece.leg, piece.call, "tool")
        if piece.progress is not None:
            self._now(f"{name} {piece.progress:.0%} {piece.text}".rstrip())
            return
        self._tool_output.add(piece.call, piece.text)

    def _tell_states(self, record: Record) -> None:
        for call_id, state in self._changed.items():
            if state in OPEN:  # its end is told by itself
                name = self._calls.name(record.leg, call_id)
                self._line("tool", f"{name} ({call_id}): {state.replace('_', ' ')}", "dim")

    def note(self, text: str) -> None:
        """See ``View``."""
        self._line("note", text, "yellow")

    def tick(self) -> None:
        """See ``View``."""
        if not self._out.is_terminal:
            for one in self._slow_tools.due():
                self._line("tool", f"{self._calls.about(one.leg, one.call_id, one.name)} still runs")
        seconds = time.monotonic() - self._since
        if self._activity and seconds >= _SLOW_S:
            symbols = self._out.symbols
            self._out.progress(f"{symbols['wait']} {self.activity} {symbols['dot']} {seconds:.0f} s")

    @property
    def activity(self) -> str:
        """What goes on just now; of an agent that waits for others: what those do."""
        running = [child.activity for child in self._children.values() if not child.is_over]
        if self._activity != FOR_CHILDREN or not running:
            return self._activity
        count = f"{len(running)} of {len(self._children)} child jobs go on"
        return f" {self._out.symbols['dot']} ".join([count, *running])

    def _now(self, activity: str) -> None:
        self._activity, self._since = activity, time.monotonic()

    def _line(self, symbol: str, text: str, style: str = "") -> None:
        self._out.line(f"{self._indent}{self._out.symbols[symbol]} {text}", style)

    def _say(self, notice: Notice) -> None:
        self._line(*notice)

    def _agent(self, leg: int) -> str:
        return str(self._actors.of(leg))

    def _break_off(self, *, anew: bool = False) -> None:
        if self._turn is not None:
            self._turn.break_off(anew=anew)
            self._turn = None

    def _leg_started(self, record: LegStarted, _: Entry) -> None:
        self._break_off(anew=record.attempt > 1)
        if record.attempt > 1:
            self._line("note", f"{self._agent(record.leg)} goes on: attempt {record.attempt}", "yellow")

    def _routed(self, record: Routed, _: Entry) -> None:
        for notice in self._notices.routed(record):
            self._say(notice)

    def _model_replied(self, record: ModelReplied, _: Entry) -> None:
        turn = self._turn
        if turn is None or not turn.is_turn(record.leg, record.turn):
            self._break_off()
            turn = StreamedTurn.of_turn(
                self._out, self._agent(record.leg), record.leg, record.turn, thoughts=self._thoughts
            )
        self._turn = None
        self._withheld = (turn, record.message) if record.withheld else None
        if self._withheld is None:
            turn.end(record.message)
        if record.model not in ("", GRAPH) and self._models.first(record.model):
            stand_in = " stand-in for a model: no key is needed" if record.model == STAND_IN else ""
            self._line("note", f"Model: {record.model}{stand_in}", "dim")

    def _show_withheld(self) -> None:
        """Show what guardrails have let pass."""
        if self._withheld is not None:
            self._withheld[0].end(self._withheld[1])
        self._withheld = None

    def _tool_finished(self, record: ToolFinished, _: Entry) -> None:
        result = record.result
        if (delegated := self._delegated.pop((record.leg, result.call_id), None)) is not None:
            self.below(delegated.child).end_with(result)
            return
        if (todos := todos_of(record)) is not None:
            self._plan(todos)
            return
        self._tool_output.end(result.call_id)
        failure = f": {preview(result.content, 120, self._out.symbols['dots'])}" if result.is_error else ""
        self._line("tool", f"{self._calls.result(record)}{failure}", "red" if result.is_error else "dim")

    def _plan(self, todos: Sequence[Todo]) -> None:
        self._line("note", f"Plan: {sum(one.status == 'completed' for one in todos)} of {len(todos)} done", "bold")
        for step in listed(todos).splitlines():
            self._out.line(f"{self._indent}   {step}", "dim")

    def _handed_off(self, record: HandedOff, _: Entry) -> None:
        self._show_withheld()
        # The route itself is told with its figures; a step back to a graph, by what that begins.
        is_back = record.kind == "edge" and not record.context.graphs[-1].node
        if not is_back and (record.kind != "route" or parent_of(self._job) is not None):
            self._say(self._notices.move(record, self._agent(record.leg), self._agent(record.leg + 1)))

    def _tell(self, record: Told, _: Entry) -> None:
        status = record.status if isinstance(record, Guarded) else ""
        self._withheld = None if self._notices.gives_another_answer(record) else self._withheld
        if status != "passed" or self._tells_states:
            self._say(self._notices.of(record, self._agent(record.leg)))

    def _suspended(self, record: LegSuspended, _: Entry) -> None:
        if record.cause == "children" and self._begun:
            self._say(self._notices.delegation(self._agent(record.leg), self._begun))
        elif record.cause == "catalog" and not self._models.first(record.detail):
            return  # again, or also for another request of the same chat
        elif record.cause != "approval":  # what is asked was told
            self._say(self._notices.pause(record, self._agent(record.leg)))

    def _unrouted(self, record: Unrouted, _: Entry) -> None:
        self._is_tie = record.is_tie

    def _ended(self, record: Ended, entry: Entry) -> None:
        self._break_off()
        if record.answer is not None:
            self._show_withheld()
            self._out.line()
        self._say_end(record)
        self._out.line(self._summary(entry), "dim")

    def _say_end(self, record: Ended) -> None:
        is_said = self._is_said(record)
        self._say(self._notices.end(record, self._agent(record.leg), is_said=is_said, is_tie=self._is_tie))

    def _is_said(self, record: Ended) -> bool:
        """Whether the answer is what the model said last, so that it has been shown."""
        return (record.answer or "").strip() == self._answer

    def _summary(self, last: Entry) -> str:
        seconds = (last.at_ms - (self._began_ms or last.at_ms)) / 1000
        chain = chain_text([self._actors.named(agent) for agent in self._chain], self._out.symbols["arrow"])
        below = [f"{len(self._children)} child job{'s' * (len(self._children) > 1)}"] if self._children else []
        figures = [chain, f"{seconds:.1f} s", *self._spending.figures, *below, f"job {self._job}"]
        return f" {self._out.symbols['dot']} ".join(figures)


class _ChildView(TerminalView):
    """A delegated job, below the lines of the one that waits for it: who has it, what it does, its end. No words."""

    def __init__(self, job: str, output: Output, spending: Spending, indent: str, actor: Actor | None) -> None:
        super().__init__(job, output, indent=indent, spending=spending, actor=actor)
        self._actor, self._name = actor, str(actor or "agent")
        self.is_over = False
        self._is_end_told = False
        self._activities = Activities(job)
        self._told: list[Activity] = []
        """What the last entry tells."""
        self._shows = {
            JobRequested: self._requested,
            HandedOff: self._handed_off,
            LegSuspended: self._suspended,
            **dict.fromkeys((Refused, LastTurn, ApprovalAsked, Decided), self._tell),
            ToolFinished: self._tool_finished,
            Ended: self._ended,
        }

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        super().learn(entry)
        if isinstance(entry.record, JobRequested) and self._name == "agent":
            self._name = entry.record.agent or self._name
        self.is_over |= isinstance(entry.record, Ended)
        self._told = self._activities.note(entry)

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        super().show(entry)
        self._think(self._told)

    def live(self, piece: LivePiece) -> None:
        """See ``View``: no words, and of thoughts what they are about."""
        if piece.progress is not None:
            super().live(piece)
        self._think(self._activities.hear(piece))

    def _think(self, activities: Iterable[Activity]) -> None:
        for one in activities:
            if one.type == "THOUGHT_CHUNK":
                thought = f"{self._actors.last} thinks: {one.data['text']}"
                thought = preview(thought, 120, self._out.symbols["dots"])
                self._line("dots", thought, "dim")
                self._now(thought)

    def end_with(self, result: ToolResult) -> None:
        """Tell the end as the result of the call that began it, unless it has been told."""
        symbol, style = ("failed", "red") if result.is_error else ("ok", "green")
        self._end(Notice(symbol, f"{self._name}: {self._notices.cut(result.content)}", style))

    def _end(self, notice: Notice) -> None:
        if not self._is_end_told:
            self._say(notice)
        self._is_end_told = self.is_over = True

    def _requested(self, record: JobRequested, _: Entry) -> None:
        self._say(self._notices.child(self._name, record.prompt, self._job))

    def _handed_off(self, record: HandedOff, entry: Entry) -> None:
        if record.kind != "route":
            super()._handed_off(record, entry)

    def _suspended(self, record: LegSuspended, entry: Entry) -> None:
        if record.cause == "children":
            super()._suspended(record, entry)

    def _ended(self, record: Ended, _: Entry) -> None:
        said = record.answer or record.error or ""
        status = self._actor.ended(record.status) if self._actor else record.status
        reason = record.reason if status == record.status else ""
        self._end(self._notices.end_of_child(self._name, status, reason, said))
