"""The waterfall, and the sample of it in the documents."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

from ekiden.dispatcher.cli.views.waterfall import ASCII, UNICODE, Glyphs, duration, waterfall
from ekiden.dispatcher.journal.story_reader import job_tree_story, story_of
from ekiden.shared.handoff import first_context
from ekiden.shared.records import (
    Ended,
    Entry,
    Guarded,
    HandedOff,
    JobRequested,
    LegStarted,
    NodeFinished,
    Record,
    Refused,
)
from ekiden.shared.redaction import redact
from tests.unit.cli.families import BEGIN_MS, DIGGER, ROOT, SCOUT, TESTER, family
from tests.unit.cli.journals import JOB, stored_journal

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"
PAGE_WIDTH = 100


def drawn(entries: list[Entry] | None = None, width: int = 100, glyphs: Glyphs = UNICODE, now_ms: int = 0) -> list[str]:
    story = story_of(JOB, stored_journal() if entries is None else entries, now_ms)
    return [line.text for line in waterfall(story, width, glyphs)]


def line_of(text: str, lines: list[str]) -> str:
    found = [line for line in lines if text in line]
    assert found, f"no line has {text!r} in it"
    return found[0]


def bar(line: str) -> str:
    return line.partition("│")[2]


def columns(line: str) -> tuple[int, int]:
    """Where a line's bar begins and ends."""
    drawn_cells = [place for place, cell in enumerate(bar(line)) if cell != " "]
    return drawn_cells[0], drawn_cells[-1]


def test_the_documents_sample_is_what_the_program_draws() -> None:
    found = re.search(r"<!-- trace sample -->\s*```\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None, "observability.md has no block behind <!-- trace sample -->"
    shown = found[1].rstrip("\n").split("\n")
    assert shown[0].startswith("$ ekiden trace show ")
    assert shown[1:] == drawn(width=PAGE_WIDTH)


def test_every_part_of_the_story_has_its_line() -> None:
    lines = drawn(width=160)
    assert line_of("debugger (waited 305 ms)", lines)
    assert line_of("gemini-2.5-flash 675 in, 68 out, $0.0004", lines)
    assert line_of("code-fixer (waited 40 ms, 3 attempts)", lines)
    assert line_of("refused transfer_to_tester: UNKNOWN_TARGET", lines)
    assert line_of("→ code-fixer: cart.py:23: the price may be None", lines)
    assert line_of("bash: worker lost", lines)
    assert line_of("attempt 2: takes over from a lost worker", lines)
    assert line_of("suspended, retry: 2 s: 429 from the model", lines)
    assert line_of("done (GOAL)", lines)
    assert lines[0].startswith(f"job {JOB} done · 23.9 s · 8 model calls · 9 tool calls · 2 handoffs · 1 refusal")
    assert lines[1] == "user → debugger → code-fixer → reviewer · 10721 tokens, $0.0047"


def test_bars_follow_each_other_in_time_and_parallel_tools_overlap() -> None:
    lines = drawn()
    grep, read = line_of("  grep ", lines), line_of("  read_file ", lines)
    assert columns(grep)[0] == columns(read)[0]
    legs = [columns(line) for line in lines if re.match(r"[a-z-]+ \(waited", line)]
    assert all(before[1] <= after[0] + 1 for before, after in pairwise(legs))
    assert columns(line_of("done (GOAL)", lines))[1] == 44


@pytest.mark.parametrize("width", [40, 61, 80, 100, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for glyphs in (UNICODE, ASCII):
        for line in drawn(width=width, glyphs=glyphs):
            assert cell_len(line) <= max(width, 56), line
            assert width < 60 or cell_len(line) <= width


def test_without_unicode_all_of_it_is_ascii() -> None:
    assert "\n".join(drawn(glyphs=ASCII)).isascii()


def test_wide_characters_keep_the_columns_in_line() -> None:
    lines = drawn(renamed("代码修复代码修复代码修复代码修复代码修复代码修复"))
    edges = {cell_len(line.partition("│")[0]) for line in lines[2:-1]}
    assert len(edges) == 1


def renamed(agent: str) -> list[Entry]:
    context = first_context(JOB).advance(agent, "because", is_route=True)
    records: list[Record] = [
        JobRequested(prompt="p"),
        HandedOff(leg=0, context=context),
        LegStarted(leg=1, agent=agent, attempt=1, worker="w"),
        Ended(leg=1, status="failed", reason="ERROR", error="\x1b[31mred\nand a second line"),
    ]
    return [Entry(seq=seq, at_ms=seq * 1_000, record=record) for seq, record in enumerate(records, 1)]


def test_nothing_of_a_text_steers_the_terminal_or_breaks_a_line() -> None:
    last = line_of("failed (ERROR", drawn(renamed("debugger")))
    assert "\x1b" not in last
    assert "\n" not in last


def test_secrets_in_reasons_are_masked() -> None:
    context = first_context(JOB).advance("debugger", "routed", is_route=True)
    context = context.advance("fixer", "use AIzaSyA-0123456789abcdefghijklmnopqrst please")
    records: list[Record] = [
        JobRequested(prompt="p"),
        LegStarted(leg=0, agent="router", attempt=1, worker="w"),
        HandedOff(leg=1, context=context, call_id="c"),
    ]
    entries = [Entry(seq=seq, at_ms=seq * 1_000, record=record) for seq, record in enumerate(records, 1)]
    text = "\n".join(drawn(entries, width=200))
    assert "→ fixer: use [redacted] please" in text


def test_a_job_that_runs_is_drawn_up_to_now() -> None:
    begun = next(entry.seq for entry in stored_journal() if entry.record.type == "tool_started")
    entries = stored_journal()[:begun]
    lines = drawn(entries, now_ms=entries[0].at_ms + 20_000)
    assert "goes on · 20.0 s" in lines[0]
    assert columns(line_of("bash: executing", lines))[1] == 44
    assert line_of("debugger (waited 305 ms, running)", lines)


def test_a_leg_without_a_worker_shows_that_it_waits() -> None:
    handed = next(entry.seq for entry in stored_journal() if entry.record.type == "handoff")
    entries = stored_journal()[:handed]
    line = line_of("debugger (waits for a worker)", drawn(entries, now_ms=entries[0].at_ms + 10_000))
    assert set(bar(line).strip()) == {"░"}


def test_an_empty_journal_draws_something() -> None:
    assert drawn([])[0].startswith(f"job {JOB}")


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (125_000, "2m05s"), (7_320_000, "2h02m")]
)
def test_durations_are_short(ms: int, text: str) -> None:
    assert duration(ms) == text


def drawn_family(width: int = 130, glyphs: Glyphs = UNICODE, upto: int = 10_000) -> list[str]:
    journals = {
        job: [entry for entry in entries if entry.at_ms <= BEGIN_MS + upto] for job, entries in family().items()
    }
    told = job_tree_story(ROOT, {job: entries for job, entries in journals.items() if entries}, BEGIN_MS + upto)
    return [line.text for line in waterfall(told, width, glyphs)]


def test_children_are_drawn_below_their_delegation_on_the_same_axis() -> None:
    lines = drawn_family()
    assert lines[0].endswith("10 model calls · 1 tool call · 3 handoffs · 1 return · 1 refusal · 3 child jobs"), (
        "counted with all below"
    )
    assert lines[1] == "user → lead → checker → lead → reviewer · 1040 tokens, $0.0115"
    labels = [line.split("  ▓")[0].split("│")[0].rstrip() for line in lines]
    order = [next(i for i, label in enumerate(labels) if label.startswith(begin)) for begin in (
        f"  ⇒ scout ({SCOUT}): look at the logs",
        "    scout (waited 100 ms)",
        "      → helper: bug identified at line 42",
        "    helper (waited 0 ms",
        f"      ⇒ digger ({DIGGER}): dig",
        "        digger (waited 100 ms)",
        f"  ⇒ tester ({TESTER}): run the tests",
        "    tester (waited 200 ms)",
        "checker (waited 400 ms)",
        "  ↩ lead: looks fine really",
    )]  # fmt: skip
    assert order == sorted(order)
    assert not any(label.lstrip().startswith("router") for label in labels[4:]), "a child is not routed"
    scout, tester = line_of(f"⇒ scout ({SCOUT})", lines), line_of(f"⇒ tester ({TESTER})", lines)
    assert columns(scout)[0] == columns(tester)[0]
    assert columns(scout)[1] < columns(tester)[1] == columns(line_of("tester (waited", lines))[1]
    assert "1.0 s" in scout
    assert "3.1 s" in line_of("suspended, children: scout, tester", lines), "until the leg was taken again"


def test_a_family_that_goes_on_is_drawn_up_to_now() -> None:
    lines = drawn_family(upto=2_550)
    assert "goes on · 2.5 s" in lines[0]
    last = columns(line_of("suspended, children: scout, tester", lines))[1]
    assert last == columns(line_of("digger (waits for a worker)", lines))[1]


@pytest.mark.parametrize("width", [61, 80, 130])
def test_no_line_of_a_family_is_wider_than_asked(width: int) -> None:
    for glyphs in (UNICODE, ASCII):
        assert max(map(cell_len, drawn_family(width, glyphs))) <= width
    assert "\n".join(drawn_family(width, ASCII)).isascii()


def test_a_name_before_a_colon_makes_no_secret_of_what_is_behind_it() -> None:
    to = first_context(JOB).advance("find_secrets", "because", is_route=True)
    failed = NodeFinished(
        leg=1, graph="flow", channel="c", node="find_secret", call_id="c", run=1, error="nothing is there"
    )
    records: list[Record] = [
        JobRequested(prompt="p"),
        HandedOff(kind="route", context=to),
        LegStarted(leg=1, agent="find_secrets", attempt=1, worker="w"),
        Guarded(leg=1, at="handoff", rail="no_secrets", policy="reject", status="passed"),
        Guarded(leg=1, at="handoff", rail="no_secrets", policy="repair", status="repaired", errors=("wrong",)),
        failed,
        Refused(leg=1, call_id="r", name="to_token", code="UNKNOWN_AGENT", message="password=hunter2hunter2"),
    ]
    lines = "\n".join(drawn([Entry(n, n, one) for n, one in enumerate(records, 1)], 300))
    for text in (
        "no_secrets lets pass handoff",
        "find_secret failed: nothing is there",
        "refused to_token: UNKNOWN_AGENT",
    ):
        assert text in lines
    assert "password=[redacted]" in lines
    assert redact(records[4].text) == records[4].text  # type: ignore[union-attr]
