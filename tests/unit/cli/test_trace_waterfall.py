"""The waterfall, and the README's sample of it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

from dispatcher.cli.trace_reading import story_of
from dispatcher.cli.trace_waterfall import ASCII, UNICODE, Glyphs, duration, waterfall
from shared.handoff import first_context
from shared.records import Ended, Entry, HandedOff, JobRequested, LegStarted, Record
from tests.unit.cli.journals import JOB, stored_journal

README = Path(__file__).parents[3] / "README.md"
README_WIDTH = 100


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


def test_the_readmes_sample_is_what_the_program_draws() -> None:
    found = re.search(r"<!-- trace sample -->\s*```\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None, "README.md has no block behind <!-- trace sample -->"
    shown = found[1].rstrip("\n").split("\n")
    assert shown[0].startswith("$ ekiden trace show ")
    assert shown[1:] == drawn(width=README_WIDTH)


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
    assert columns(line_of("bash: running", lines))[1] == 44
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
