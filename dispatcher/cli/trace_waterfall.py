"""A story as a waterfall: a line per leg and per step, with bars on a common axis of time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from dispatcher.cli.output import one_line, printable
from dispatcher.cli.trace_story import Attempt, Leg, Step, StepKind, Story
from shared.redaction import redact

__all__ = ["ASCII", "UNICODE", "Glyphs", "Line", "duration", "waterfall"]

MIN_WIDTH = 40
_TOOK = 8
_STYLES: dict[StepKind, str] = {"route": "bold", "handoff": "bold cyan", "refused": "yellow", "suspended": "yellow"}
_STYLES |= {"notice": "yellow", "tool": "dim", "model": ""}


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
    dot: str
    dots: str


UNICODE = Glyphs("━", "█", "▓", "░", "✗", "◆", "│", "→", "·", "…")
ASCII = Glyphs("=", "#", "+", ".", "x", "*", "|", "->", "|", "...")


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
    """Yield the lines of a story, at most ``width`` columns wide."""
    canvas = _Canvas(story, max(width, MIN_WIDTH), glyphs)
    yield Line(canvas.cut(f" {glyphs.dot} ".join(_summary(story))), "bold")
    yield Line(canvas.cut(f"{f' {glyphs.arrow} '.join(story.chain)} {glyphs.dot} {_tokens(story)}"))
    yield canvas.axis()
    for leg in story.legs:
        yield from canvas.leg(leg)
    if story.end is not None:
        is_done = story.end.status == "done"
        reason = story.end.reason if is_done else f"{story.end.reason}: {story.end.error or ''}"
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
    """Places labels and bars."""

    def __init__(self, story: Story, width: int, glyphs: Glyphs) -> None:
        self._story = story
        self._glyphs = glyphs
        self._width = width
        self._label = min(56, width * 45 // 100)
        self._cells = width - self._label - _TOOK - 2
        self._total_ms = max(story.now_ms - story.start_ms, 1)

    def cut(self, text: str, width: int | None = None) -> str:
        """Return ``text`` on one line, cut where it is too long."""
        width = self._width if width is None else width
        text = one_line(printable(redact(text)), 10 * width)
        if cell_len(text) <= width:
            return text
        dots = self._glyphs.dots
        return set_cell_size(text, width - len(dots)).rstrip() + dots

    def axis(self) -> Line:
        """Return the line with the scale."""
        edge = self._glyphs.edge
        end = duration(self._total_ms)
        return Line(f"{'':{self._label + _TOOK}}{edge}0 s{end:>{self._cells - 3}}{edge}", "dim")

    def line(self, label: str, took_ms: int | None, bars: Iterable[_Bar], style: str = "") -> Line:
        """Return a line with a label, how long it took and its bars."""
        took = "" if took_ms is None else duration(took_ms)
        indent = "  " * label.startswith(" ")
        left = set_cell_size(indent + self.cut(label, self._label - 1 - len(indent)), self._label)
        return Line(f"{left}{took:>{_TOOK - 1}} {self._glyphs.edge}{self._paint(bars)}".rstrip(), style)

    def leg(self, leg: Leg) -> Iterator[Line]:
        """Yield a leg's line and those of its steps."""
        now = self._story.now_ms
        if leg.wait_ms is None:
            label = f"{leg.agent} (waits for a worker)" if self._story.end is None else f"{leg.agent} (never began)"
            yield self.line(label, None, [_Bar(leg.ready_ms, now, self._glyphs.wait)], "bold")
            return
        notes = [f"waited {duration(leg.wait_ms)}", f"{len(leg.attempts)} attempts" if len(leg.attempts) > 1 else ""]
        took = sum((attempt.end_ms or now) - attempt.start_ms for attempt in leg.attempts)
        bars = [bar for attempt in leg.attempts for bar in self._attempt_bars(attempt)]
        running = ", running" if leg.attempts[-1].end == "running" else ""
        yield self.line(f"{leg.agent} ({', '.join(filter(None, notes))}{running})", took, bars, "bold")
        for attempt in leg.attempts:
            if attempt.number > 1:
                yield self._attempt_line(attempt)
            for step in attempt.steps:
                yield self._step(step)

    def _attempt_bars(self, attempt: Attempt) -> list[_Bar]:
        end_ms = self._story.now_ms if attempt.end_ms is None else attempt.end_ms
        bars = [_Bar(attempt.start_ms, end_ms, self._glyphs.leg)]
        if attempt.ready_ms < attempt.start_ms:
            bars.insert(0, _Bar(attempt.ready_ms, attempt.start_ms, self._glyphs.wait))
        if attempt.end == "lost":
            bars.append(_Bar(end_ms, end_ms, self._glyphs.lost))
        return bars

    def _attempt_line(self, attempt: Attempt) -> Line:
        wait_ms = attempt.start_ms - attempt.ready_ms
        how = "takes over from a lost worker" if attempt.is_takeover else f"waited {duration(wait_ms)}"
        bar = _Bar(attempt.start_ms, attempt.start_ms, self._glyphs.moment)
        return self.line(f"  attempt {attempt.number}: {how}", None, [bar], "yellow")

    def _step(self, step: Step) -> Line:
        end_ms = self._story.now_ms if step.end_ms is None else step.end_ms
        is_known = step.kind in ("model", "tool", "suspended") and not step.is_lost
        took = end_ms - step.start_ms if is_known else None
        label = f"  {self._label_of(step)}"
        bars = [_Bar(step.start_ms, end_ms, self._glyph(step))]
        return self.line(label, took, bars, "red" if step.is_error and step.kind == "tool" else _STYLES[step.kind])

    def _glyph(self, step: Step) -> str:
        glyphs = self._glyphs
        if step.is_lost:
            return glyphs.lost
        return {"model": glyphs.model, "tool": glyphs.tool, "suspended": glyphs.wait}.get(step.kind, glyphs.moment)

    def _label_of(self, step: Step) -> str:
        match step.kind:
            case "model":
                odd = f" [{step.detail}]" if step.is_error else ""
                return f"{step.name} {step.usage.input_tokens} in, {step.usage.output_tokens} out{_cost(step)}{odd}"
            case "tool":
                return f"{step.name}{_state(step)}"
            case "handoff":
                return f"{self._glyphs.arrow} {step.name}: {step.detail}"
            case "route":
                return f"{self._glyphs.arrow} {step.name} ({step.detail})"
            case "refused":
                return f"refused {step.name}: {step.detail}"
            case "suspended":
                return f"suspended, {step.name.replace('_', ' ')}: {step.detail}"
            case "notice":
                return step.detail

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
    yield duration(story.now_ms - story.start_ms)
    for kind, word in (("model", "model call"), ("tool", "tool call"), ("handoff", "handoff"), ("refused", "refusal")):
        if number := sum(step.kind == kind for step in story.steps):
            yield f"{number} {word}{'s' * (number > 1)}"


def _tokens(story: Story) -> str:
    return f"{story.usage.input_tokens + story.usage.output_tokens} tokens{_cost(story)}"


def _cost(of: Step | Story) -> str:
    return f", ${of.cost_usd:.4f}" if of.cost_usd else ""


def _state(step: Step) -> str:
    if step.is_lost:
        return ": worker lost"
    if step.end_ms is None:
        return ": running"
    return f": error, {step.detail}" if step.is_error else ""
