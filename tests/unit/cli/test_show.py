"""How a journal is shown."""

import io
from collections.abc import Iterable

import pytest

from ekiden.dispatcher.cli.exit_codes import exit_code_of
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views import slow_tools
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.shared.handoff import first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult, Usage
from ekiden.shared.once import Once
from ekiden.shared.records import (
    Ended,
    Entry,
    FellBack,
    HandedOff,
    Hooked,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Noticed,
    Record,
    Refused,
    Routed,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.stores.views import LivePiece

JOB = "abcdefghijklmnop.1"
ROUTE = first_context(JOB).advance("debugger", "routed by rule", is_route=True)
HANDOFF = ROUTE.advance("code-fixer", "cart.py:23 lacks a check")


def entries(records: Iterable[Record]) -> list[Entry]:
    return [Entry(seq=number, at_ms=1_000 * number, record=record) for number, record in enumerate(records, 1)]


def shown(*records: Record) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    view = TerminalView(JOB, Output(stream))
    for entry in entries(records):
        view.show(entry)
    stream.seek(0)
    return stream.read()


def reply(text: str = "", *calls: ToolCall, leg: int = 1, tokens: int = 10) -> ModelReplied:
    parts = (*([TextPart(text=text)] if text else []), *calls)
    message = Message(role="model", parts=parts)
    return ModelReplied(leg=leg, turn=1, message=message, usage=Usage(input_tokens=tokens), model="scripted")


def test_a_relay_reads_like_a_story_and_ends_with_its_chain() -> None:
    call = ToolCall(id="c1", name="read_file", args={"path": "cart.py", "limit": 9})
    text = shown(
        JobRequested(prompt="it fails"),
        LegStarted(agent="router", attempt=1, worker="w"),
        Routed(agent="debugger", stage="rule", score=27, confidence=27),
        HandedOff(context=ROUTE),
        LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
        reply("I look.", call),
        ToolFinished(leg=1, result=ToolResult(call_id="c1", name="read_file", content="…"), duration_ms=3),
        HandedOff(leg=1, context=HANDOFF, call_id="c2"),
        LegStarted(leg=2, agent="code-fixer", attempt=1, worker="w"),
        reply("Repaired.", leg=2),
        Ended(leg=2, status="done", reason="GOAL", answer="Repaired."),
    )
    assert text.splitlines() == [
        "🎯 Routing via rule-match to: debugger (27% confidence)",
        "debugger: I look.",
        "💡 Model: scripted stand-in for a model: no key is needed",
        "🔧 read_file cart.py limit=9 (3 ms)",
        "🔀 debugger → code-fixer: cart.py:23 lacks a check",
        "code-fixer: Repaired.",
        "",
        "✅ code-fixer has answered",
        f"user → debugger → code-fixer · 10.0 s · 20 tokens · job {JOB}",
    ]


def test_a_call_that_a_hook_has_changed_is_shown_as_it_ran() -> None:
    changed = Hooked(
        leg=1, turn=1, at="BeforeTool", by=("guard",), call_id="c1", changed=("args",), value={"n": "1002"}
    )
    text = shown(
        LegStarted(leg=1, agent="orders", attempt=1, worker="w"),
        reply("", ToolCall(id="c1", name="order_status", args={"n": "1001"})),
        changed,
        ToolFinished(leg=1, result=ToolResult(call_id="c1", name="order_status", content="paid")),
    )
    assert "order_status 1002" in text
    assert "order_status 1001" not in text


def test_what_goes_wrong_on_the_way_is_shown_with_its_cause() -> None:
    text = shown(
        LegStarted(leg=1, agent="debugger", attempt=2, worker="w"),
        ToolFinished(leg=1, result=ToolResult(call_id="?", name="bash", content="no\nway", is_error=True)),
        Refused(leg=1, call_id="c", name="transfer_to_x", code="CIRCULAR_HANDOFF", message="answer yourself"),
        LegSuspended(leg=1, cause="missing_tools", delay_s=0.5, detail="tools bash"),
        LegSuspended(leg=1, cause="limit", delay_s=60, detail="m's limit of 10 calls a minute, about 12 s"),
        FellBack(leg=1, model="m", why="limit", text="m's limit of 10 calls a minute, about 12 s", to="n"),
        Noticed(leg=1, text="the catalog changed"),
        Ended(leg=1, status="failed", reason="TIMEOUT", error="too long"),
    )
    assert text.splitlines()[:8] == [
        "💡 debugger goes on: attempt 2",
        "🔧 bash: no way",
        "⛔ debugger: transfer_to_x refused (CIRCULAR_HANDOFF): answer yourself",
        "⏳ debugger waits 0.5 s: missing tools: tools bash",
        "⏳ debugger waits for m's limit of 10 calls a minute, about 12 s",
        "💡 m has no room, n is asked: m's limit of 10 calls a minute, about 12 s",
        "💡 the catalog changed",
        "❌ failed (TIMEOUT): too long",
    ]


def test_an_answer_that_does_not_do_what_was_asked_is_no_success() -> None:
    end = Ended(leg=1, status="unfinished", reason="GOAL_NOT_REACHED", answer="There is no test.")
    told = shown(LegStarted(leg=1, agent="debugger", attempt=1, worker="w"), reply("There is no test."), end)
    assert "🚧 debugger could not do what was asked\n" in told
    assert "✅" not in told
    assert "🚧 agent could not do what was asked: There is no test." in shown(end)


def test_the_agent_that_the_user_named_is_no_match_of_a_rule() -> None:
    text = shown(Routed(agent="gardener", stage="agent", score=0, confidence=100))
    assert text == "🎯 Routing as asked to: gardener\n"


def test_a_model_cannot_steer_the_terminal() -> None:
    text = shown(Ended(status="done", reason="GOAL", answer="\x1b]0;owned\x07\x1b[2Jfine [red]not markup[/red]"))
    assert "\x1b" not in text
    assert "fine [red]not markup[/red]" in text


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("done", "GOAL", 0),
        ("failed", "ERROR", 1),
        ("failed", "NO_ROUTE", 5),
        ("dead", "ERROR", 1),
        ("cancelled", "ABORTED", 130),
    ],
)
def test_the_exit_code_tells_how_the_job_ended(status: str, reason: str, code: int) -> None:
    assert exit_code_of(status, reason) == code


def live(text: str, turn: int = 1, *, fence: str = "2", thought: bool = False, restart: bool = False) -> LivePiece:
    return LivePiece(leg=1, fence=fence, turn=turn, text=text, thought=thought, restart=restart)


def streamed(*events: Record | LivePiece, thoughts: bool = False) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    models = Once()
    models.first("scripted")
    view = TerminalView(JOB, Output(stream), thoughts=thoughts, models=models)
    view.show(Entry(seq=1, at_ms=0, record=LegStarted(leg=1, agent="debugger", attempt=1, worker="w")))
    for event in events:
        if isinstance(event, LivePiece):
            view.live(event)
        else:
            view.show(Entry(seq=2, at_ms=0, record=event))
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize(
    "pieces",
    [[], ["  I lo"], [" ", " I", " look.", "\n"], ["  I look.\n  Twice.\n"]],
    ids=["nothing", "a piece", "words", "all"],
)
def test_a_reply_reads_the_same_however_much_of_it_came_live(pieces: list[str]) -> None:
    events: list[Record | LivePiece] = [*map(live, pieces), reply("  I look.\n  Twice.\n")]
    text = streamed(*events)
    assert text == "debugger: I look.\n  Twice.\n"


def test_that_agents_are_still_being_read_is_said_once() -> None:
    waits = LegSuspended(leg=1, cause="catalog", delay_s=1, detail="the agents are still being read (catalog a)")
    other = waits.model_copy(update={"detail": "the agents are still being read (catalog b)"})
    text = streamed(waits, waits, other, waits)
    assert text.count("still being read (catalog a)") == 1
    assert text.count("still being read (catalog b)") == 1


def test_live_text_is_shown_before_its_reply_is_recorded() -> None:
    assert streamed(live("I lo")) == "debugger: I lo"


def test_thoughts_are_folded_into_one_line_or_shown_when_asked_for() -> None:
    events: list[Record | LivePiece] = [
        live("let me ", thought=True),
        live("see", thought=True),
        live("Found."),
        reply("Found."),
    ]
    assert streamed(*events) == "… thinking (3 words)\ndebugger: Found.\n"
    assert streamed(*events, thoughts=True) == "debugger thinks: let me see\ndebugger: Found.\n"


def test_thoughts_that_only_the_record_has_are_folded_just_so() -> None:
    message = Message(role="model", parts=(TextPart(text="let me see", thought=True), TextPart(text="Found.")))
    assert streamed(ModelReplied(leg=1, turn=1, message=message)) == "… thinking (3 words)\ndebugger: Found.\n"


def test_a_reply_that_begins_anew_is_broken_off_first() -> None:
    text = streamed(live("I th"), live("", restart=True), live("Now it works."), reply("Now it works."))
    assert text == "debugger: I th … (begins anew)\ndebugger: Now it works.\n"


def test_an_attempt_that_was_lost_is_broken_off_when_the_next_one_starts() -> None:
    again = LegStarted(leg=1, agent="debugger", attempt=2, worker="w")
    text = streamed(live("I th"), again, live("Better.", fence="3"), reply("Better."))
    assert text == "debugger: I th … (begins anew)\n💡 debugger goes on: attempt 2\ndebugger: Better.\n"


def test_a_reply_whose_beginning_was_lost_is_shown_whole() -> None:
    assert (
        streamed(live("end."), reply("The whole, to its end."))
        == "debugger: end. …\ndebugger: The whole, to its end.\n"
    )


def test_a_note_stands_on_a_line_of_its_own() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    view = TerminalView(JOB, Output(stream))
    view.live(live("half"))
    view.note("the server is away")
    view.tick()
    stream.seek(0)
    assert stream.read() == "agent: half\n💡 the server is away\n"


def shows(text: str, call_id: str = "c", progress: float | None = None) -> LivePiece:
    return LivePiece(leg=1, fence="2", turn=1, text=text, call=call_id, progress=progress)


def test_what_a_tool_shows_while_it_runs_comes_in_whole_lines() -> None:
    call = ToolCall(id="c", name="bash", args={"command": "make"})
    made = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(call,)))
    done = ToolFinished(leg=1, result=ToolResult(call_id="c", name="bash", content="ok"), duration_ms=7)
    begun = ToolStarted(leg=1, call_id="c", name="bash")
    text = streamed(made, begun, shows("one\ntw"), shows("half", progress=0.5), shows("o\nthr"), done)
    assert text == "  one\n  two\n  thr\n🔧 bash make (7 ms)\n"


def test_a_verbose_view_tells_each_state_of_a_call() -> None:
    calls = tuple(ToolCall(id=name, name=name) for name in ("ls", "bash"))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    view = TerminalView(JOB, Output(stream), verbose=True)
    for record in (
        ModelReplied(leg=1, turn=1, message=Message(role="model", parts=calls)),
        ToolStarted(leg=1, call_id="ls", name="ls"),
        ToolFinished(leg=1, result=ToolResult(call_id="ls", name="ls", content="ok")),
        LegSuspended(leg=1, cause="approval", delay_s=0),
    ):
        view.show(Entry(seq=1, at_ms=0, record=record))
    stream.seek(0)
    assert [line for line in stream.read().splitlines() if line.startswith("🔧")] == [
        "🔧 ls (ls): validating",
        "🔧 bash (bash): validating",
        "🔧 ls (ls): executing",
        "🔧 bash (bash): scheduled",
        "🔧 ls (0 ms)",
        "🔧 bash (bash): awaiting approval",
    ]


def priced(cost_usd: float | None, model: str = "gemini-2.5-flash") -> ModelReplied:
    return reply("Done.", tokens=10).model_copy(update={"cost_usd": cost_usd, "model": model})


@pytest.mark.parametrize(
    ("replies", "figures"),
    [
        ((priced(0.0125), priced(0.02)), "20 tokens · $0.0325 · job"),
        ((priced(0.0125), priced(None, "nobody-knows-1")), "20 tokens · at least $0.0125 · job"),
        ((priced(0.0, "scripted"),), "10 tokens · job"),
        ((priced(None),), "10 tokens · under $0.0001 · job"),
    ],
)
def test_the_closing_line_says_what_it_cost_as_far_as_anybody_knows(
    replies: tuple[ModelReplied, ...], figures: str
) -> None:
    assert figures in shown(*replies, Ended(leg=1, status="done", reason="GOAL", answer="Done."))


def test_a_tool_that_takes_its_time_is_said_to_run_where_no_line_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    call = ToolCall(id="c1", name="bash", args={"command": "make"})
    out = io.StringIO()
    view = TerminalView(JOB, Output(out))
    began: tuple[Record, ...] = (reply("", call), ToolStarted(leg=1, call_id="c1", name="bash"))
    for seq, record in enumerate(began, 1):
        view.show(Entry(seq=seq, at_ms=seq, record=record))
    view.tick()
    assert "runs" not in out.getvalue()
    monkeypatch.setattr(slow_tools, "SLOW_S", 0.0)
    view.tick()
    view.tick()
    assert out.getvalue().count("bash make still runs") == 1
