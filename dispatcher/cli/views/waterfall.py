"""A story as a waterfall: a line per leg and per step, with bars on a common axis of time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.cells import set_cell_size

from ekiden.dispatcher.cli.terminal.output import fitted
from ekiden.dispatcher.journal.call_states import OPEN
from ekiden.dispatcher.journal.story import Attempt, Leg, Step, StepKind, Story
from ekiden.shared.records import RoutingStage
from ekiden.shared.redaction import redact

__all__ = ["ASCII", "UNICODE", "Glyphs", "Line", "duration", "waterfall"]

MIN_WIDTH = 40
_TOOK = 8
_STYLES: dict[StepKind, str] = {"route": "bold", "handoff": "bold cyan", "refused": "yellow", "suspended": "yellow"}
_STYLES["approval"] = "yellow"
_STYLES |= {
    "notice": "yellow",
    "guardrail": "yellow",
    "tool": "dim",
    "model": "",
    "edge": "bold cyan",
    "returned": "bold cyan",
    "delegated": "bold cyan",
}


_COUNTED: dict[StepKind, str] = {
    "model": "model call",
    "tool": "tool call",
    "handoff": "handoff",
    "edge": "graph step",
    "approval": "approval",
}
_COUNTED |= {"returned": "return", "refused": "refusal", "delegated": "child job"}


@dataclass(frozen=True)
class Glyphs:
    """What bars and labels are drawn with."""

    leg: str
    model: str
    tool: str
    wait: str
    lost: str
    moment: str
    edge: str
    arrow: str
    back: str
    calls: str
    dot: str
    dots: str


UNICODE = Glyphs("━", "█", "▓", "░", "✗", "◆", "│", "→", "↩", "⇒", "·", "…")
ASCII = Glyphs("=", "#", "+", ".", "x", "*", "|", "->", "<-", "==>", "|", "...")


@dataclass(frozen=True)
class Line:
    """A line of the waterfall, and how a terminal shows it."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class _Bar:
    start_ms: int
    end_ms: int
    glyph: str


def waterfall(story: Story, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Yield the lines of a story and those below it, at most ``width`` columns wide."""
    canvas = _Canvas(story, max(width, MIN_WIDTH), glyphs)
    yield Line(canvas.cut(f" {glyphs.dot} ".join(_summary(story))), "bold")
    yield Line(canvas.cut(f"{redact(f' {glyphs.arrow} '.join(story.actors))} {glyphs.dot} {_tokens(story)}"))
    yield canvas.axis()
    yield from canvas.legs(story)
    yield from canvas.waiting_calls(story)
    if story.end is not None:
        is_done = story.end.status == "done"
        why = (
            ", recovered"
            if story.end.recovered
            else ""
            if is_done
            else f": {redact(story.end.error or story.end.answer or '')}"
        )
        reason = f"{story.end.reason}{why}"
        bar = _Bar(story.now_ms, story.now_ms, glyphs.moment)
        yield canvas.line(f"{story.end.status} ({reason})", None, [bar], "green" if is_done else "red")
    yield Line(_legend(glyphs), "dim")


def duration(ms: int) -> str:
    """Return a length of time for people, in seven characters or less."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{minutes}m{seconds:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


class _Canvas:
    """Places labels and bars: all on the time axis of one story."""

    def __init__(self, story: Story, width: int, glyphs: Glyphs) -> None:
        self._story = story
        self._glyphs = glyphs
        self._width = width
        self._label = min(56, width * 45 // 100)
        self._cells = width - self._label - _TOOK - 2
        self._total_ms = max(story.now_ms - story.start_ms, 1)

    def cut(self, text: str, width: int | None = None) -> str:
        """Return ``text``, of which all that came from outside is redacted, on one line, cut where it is too long.

        The line itself is not redacted: a name before a colon would make a secret of whatever follows.
        """
        return fitted(text, self._width if width is None else width, self._glyphs.dots)

    def axis(self) -> Line:
        """Return the line with the scale."""
        edge = self._glyphs.edge
        end = duration(self._total_ms)
        return Line(f"{'':{self._label + _TOOK}}{edge}0 s{end:>{self._cells - 3}}{edge}", "dim")

    def line(self, label: str, took_ms: int | None, bars: Iterable[_Bar], style: str = "") -> Line:
        """Return a line with a label, how long it took and its bars."""
        took = "" if took_ms is None else duration(took_ms)
        indent = label[: min(len(label) - len(label.lstrip(" ")), self._label // 2)]
        left = set_cell_size(indent + self.cut(label, self._label - 1 - len(indent)), self._label)
        return Line(f"{left}{took:>{_TOOK - 1}} {self._glyphs.edge}{self._paint(bars)}".rstrip(), style)

    def legs(self, story: Story, indent: str = "") -> Iterator[Line]:
        """Yield the lines of a story's legs, and below each delegation those of the child's."""
        for leg in story.own_legs:
            yield from self._leg(story, leg, indent)

    def _leg(self, story: Story, leg: Leg, indent: str) -> Iterator[Line]:
        now = story.now_ms
        if leg.wait_ms is None:
            label = f"{indent}{redact(leg.who)} ({'waits for a worker' if story.end is None else 'never began'})"
            yield self.line(label, None, [_Bar(leg.ready_ms, now, self._glyphs.wait)], "bold")
            return
        notes = [f"waited {duration(leg.wait_ms)}", f"{len(leg.attempts)} attempts" if len(leg.attempts) > 1 else ""]
        took = sum((attempt.end_ms or now) - attempt.start_ms for attempt in leg.attempts)
        bars = [bar for attempt in leg.attempts for bar in self._attempt_bars(attempt, now)]
        running = ", running" if leg.attempts[-1].end == "running" else ""
        yield self.line(f"{indent}{redact(leg.who)} ({', '.join(filter(None, notes))}{running})", took, bars, "bold")
        for attempt in leg.attempts:
            if attempt.number > 1:
                yield self._attempt_line(attempt, indent)
            for step in attempt.steps:
                yield self._step(step, now, indent)
                yield from (Line(self.cut(f"    {_stage_text(stage)}"), "dim") for stage in step.stages)
                if (child := story.children.get(step.child)) is not None:
                    yield from self.legs(child, f"{indent}    ")

    def waiting_calls(self, story: Story) -> Iterator[Line]:
        """Yield a line for each call that was made and does not run yet."""
        for one in story.calls.last_turn:
            if one.state in OPEN and one.state != "executing":
                yield self.line(f"  {redact(one.call.name)}: {one.state.replace('_', ' ')}", None, [], _STYLES["tool"])

    def _attempt_bars(self, attempt: Attempt, now: int) -> list[_Bar]:
        end_ms = now if attempt.end_ms is None else attempt.end_ms
        bars = [_Bar(attempt.start_ms, end_ms, self._glyphs.leg)]
        if attempt.ready_ms < attempt.start_ms:
            bars.insert(0, _Bar(attempt.ready_ms, attempt.start_ms, self._glyphs.wait))
        if attempt.end == "lost":
            bars.append(_Bar(end_ms, end_ms, self._glyphs.lost))
        return bars

    def _attempt_line(self, attempt: Attempt, indent: str) -> Line:
        wait_ms = attempt.start_ms - attempt.ready_ms
        how = "takes over from a lost worker" if attempt.is_takeover else f"waited {duration(wait_ms)}"
        bar = _Bar(attempt.start_ms, attempt.start_ms, self._glyphs.moment)
        return self.line(f"{indent}  attempt {attempt.number}: {how}", None, [bar], "yellow")

    def _step(self, step: Step, now: int, indent: str) -> Line:
        end_ms = now if step.end_ms is None else step.end_ms
        is_known = step.kind in ("model", "tool", "approval", "delegated", "suspended") and not (
            step.is_lost or step.told
        )
        took = end_ms - step.start_ms if is_known else None
        label = f"{indent}  {self._label_of(step)}"
        bars = [_Bar(step.start_ms, end_ms, self._glyph(step))]
        is_failure = step.is_error and step.kind in ("tool", "delegated")
        return self.line(label, took, bars, "red" if is_failure else _STYLES[step.kind])

    def _glyph(self, step: Step) -> str:
        glyphs = self._glyphs
        if step.is_lost:
            return glyphs.lost
        shown = {"model": glyphs.model, "tool": glyphs.tool, "delegated": glyphs.tool}
        shown |= {"suspended": glyphs.wait, "approval": glyphs.wait}
        return glyphs.moment if step.told else shown.get(step.kind, glyphs.moment)

    def _label_of(self, step: Step) -> str:
        name, detail = redact(step.name), redact(step.detail)
        match step.kind:
            case "model":
                usage, odd = step.usage, f" [{detail}]" if detail else ""
                return f"{name} {usage.input_tokens} in, {usage.output_tokens} out{_cost(step.cost_usd)}{odd}"
            case "tool":
                return f"{name}{_state(step)}"
            case "approval":
                return f"{name}: {detail}"
            case "handoff" | "edge" | "returned" | "delegated":
                glyphs = {"returned": self._glyphs.back, "delegated": self._glyphs.calls}
                whom = f"{redact(step.whom)} ({step.child})" if step.child else redact(step.whom)
                return f"{glyphs.get(step.kind, self._glyphs.arrow)} {whom}: {detail}"
            case "route":
                return f"{self._glyphs.arrow} {name} ({detail})"
            case "refused":
                return f"refused {name}: {detail}"
            case "suspended":
                return f"suspended, {name.replace('_', ' ')}: {detail}"
            case "notice" | "guardrail":
                return detail

    def _paint(self, bars: Iterable[_Bar]) -> str:
        cells = [" "] * self._cells
        for bar in bars:
            first = self._cell(bar.start_ms)
            last = max(first, self._cell(bar.end_ms - 1))
            cells[first : last + 1] = [bar.glyph] * (last + 1 - first)
        return "".join(cells)

    def _cell(self, at_ms: int) -> int:
        place = (at_ms - self._story.start_ms) * self._cells // self._total_ms
        return min(max(place, 0), self._cells - 1)


def _legend(glyphs: Glyphs) -> str:
    meanings = {
        glyphs.wait: "waits",
        glyphs.leg: "has a worker",
        glyphs.model: "model",
        glyphs.tool: "tool",
        glyphs.lost: "lost",
    }
    return "   ".join(f"{glyph} {meaning}" for glyph, meaning in meanings.items())


def _summary(story: Story) -> Iterator[str]:
    state = "goes on" if story.end is None else story.end.status
    yield f"job {story.job} {state}"
    if story.forked is not None:
        yield f"forked from job {story.forked.job} at {story.forked.seq}"
    yield duration(story.now_ms - story.start_ms)
    for kind, word in _COUNTED.items():
        if number := story.count(kind):
            yield f"{number} {word}{'s' * (number > 1)}"


def _tokens(story: Story) -> str:
    usage = story.total_usage
    return f"{usage.input_tokens + usage.output_tokens} tokens{_cost(story.total_cost_usd)}"


def _cost(cost_usd: float | None) -> str:
    return f", ${cost_usd:.4f}" if cost_usd else ""


def _stage_text(stage: RoutingStage) -> str:
    found = f"{redact(stage.agent or 'nobody')} {stage.confidence:.0f}%"
    return (
        f"{stage.stage}: {found}{', chosen' if stage.decided else ''}{f' ({redact(stage.note)})' if stage.note else ''}"
    )


def _state(step: Step) -> str:
    if step.is_lost:
        return ": worker lost"
    if step.end_ms is None:
        return ": executing"
    if step.told:
        return f": {redact(step.told)}"
    return f": error, {redact(step.detail)}" if step.is_error else ""
