"""A call of which a person has said what it gave: no view shows it as one that ran."""

import io

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.cli.views.waterfall import UNICODE, waterfall
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.shared.handoff import first_context
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Record,
    Retried,
    SettledCall,
    ToolFinished,
    ToolStarted,
)
from ekiden.shared.relay.message import queue_of_leg
from ekiden.shared.tracing.content import Content
from ekiden.shared.tracing.lines import trace_lines
from ekiden.shared.tracing.mapping import JobSpans

JOB = "abcdefghijklmnop.1"
PAY = ToolCall(id="p.1", name="pay", args={"bill": "61"})
BEGUN = ToolStarted(leg=1, call_id="p.1", name="pay", is_known=True)
LOST = ToolResult(call_id="p.1", name="pay", content="Not finished: TIMEOUT.", is_error=True, is_unknown=True)
GIVEN = ToolResult(call_id="p.1", name="pay", content="ok61")
WITHHELD = ToolResult(call_id="p.1", name="pay", content="withheld", is_error=True)


def said(*, is_done: bool = True, by: str = "root") -> Retried:
    return Retried(leg=1, settled=(SettledCall(call_id="p.1", is_done=is_done, text="ok61"),), by=by)


def job(*more: Record) -> list[Entry]:
    records: list[Record] = [
        JobRequested(prompt="pay it"),
        LegStarted(agent="router", attempt=1, worker="w"),
        HandedOff(context=first_context(JOB).advance("payer", "routed")),
        LegStarted(leg=1, agent="payer", attempt=1, worker="w"),
        ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(PAY,))),
        BEGUN,
        ToolFinished(leg=1, result=LOST),
        Ended(leg=1, status="failed", reason="TIMEOUT", error="late"),
        *more,
    ]
    return [Entry(seq=n, at_ms=1_000 * n, record=record) for n, record in enumerate(records, 1)]


def live(*more: Record) -> str:
    stream = io.StringIO()
    view = TerminalView(JOB, Output(stream))
    for entry in job(*more):
        view.show(entry)
    return stream.getvalue()


def drawn(*more: Record) -> str:
    return "\n".join(line.text for line in waterfall(story_of(JOB, job(*more), 20_000), 160, UNICODE))


def traced(*more: Record) -> str:
    spans = JobSpans(JOB, queue_of_leg, Prices(), Content(lambda value: value))
    ended = [span for entry in job(*more) for span in spans.note(entry)]
    return "\n".join(line for span in ended for line in trace_lines(span.name, span.attributes, 0.0))


AGAIN: Record = LegStarted(leg=1, agent="payer", attempt=2, worker="w")


@pytest.mark.parametrize("gave", [GIVEN, WITHHELD], ids=["given", "withheld"])
def test_it_is_told_by_whom_and_that_it_did_not_run(gave: ToolResult) -> None:
    told = said(), AGAIN, ToolFinished(leg=1, result=gave, is_withheld=gave.is_error)
    assert "pay 61: told by root, not run" in live(*told)
    assert "pay: told by root, not run" in drawn(*told)
    assert "Outcome: told_not_run" in traced(*told)
    lines = [line for line in (live(*told) + drawn(*told)).splitlines() if "told by" in line]
    assert not any("ms" in line for line in lines)


def test_nobody_is_somebody() -> None:
    assert "pay 61: told by somebody, not run" in live(said(by=""), AGAIN, ToolFinished(leg=1, result=GIVEN))


@pytest.mark.parametrize(
    "records",
    [
        [ToolFinished(leg=1, result=LOST)],
        [BEGUN, ToolFinished(leg=1, result=GIVEN, duration_ms=7)],
    ],
    ids=["its job has ended before", "it has begun again"],
)
def test_what_is_no_word_of_a_person_is_told_as_ever(records: list[Record]) -> None:
    more = said(), AGAIN, *records
    assert "told by" not in live(*more) + drawn(*more)
    assert "told_not_run" not in traced(*more)


def test_one_that_was_not_done_is_told_as_it_runs() -> None:
    more = said(is_done=False), AGAIN, BEGUN, ToolFinished(leg=1, result=GIVEN, duration_ms=7)
    assert "pay 61 (7 ms)" in live(*more)
    assert "root says: p.1 was not done" in live(*more)
