"""The reader of journals finds nothing in a good one, and in a broken one what is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden.shared.handoff import first_context
from ekiden.shared.messages import ToolResult
from ekiden.shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    Noticed,
    Record,
    Retried,
    ToolFinished,
)
from ekiden.shared.stores.views import JobView
from tests.invariants import faults_of_job, faults_of_journal
from tests.unit.cli.journals import JOB, stored_journal

GOOD = [entry.record for entry in stored_journal()]
Change = Callable[[list[Record]], list[Record]]


def placed(records: list[Record]) -> list[Entry]:
    return [Entry(seq=seq, at_ms=seq, record=record) for seq, record in enumerate(records, 1)]


def faults(records: list[Record], *, is_over: bool = True) -> list[str]:
    return faults_of_journal(placed(records), is_over=is_over)


def position(kind: str, number: int = 1) -> int:
    """Where the stored journal has its ``number``-th record of ``kind``."""
    return [at for at, record in enumerate(GOOD) if record.type == kind][number - 1]


def without(kind: str, number: int = 1) -> Change:
    return lambda records: records[: position(kind, number)] + records[position(kind, number) + 1 :]


def again(kind: str, number: int = 1, later: int = 0) -> Change:
    """The record once more, ``later`` records behind where it comes."""
    at = position(kind, number)
    return lambda records: [*records[: at + 1 + later], records[at], *records[at + 1 + later :]]


def changed(kind: str, number: int = 1, **fields: Any) -> Change:
    at = position(kind, number)
    return lambda records: [*records[:at], records[at].model_copy(update=fields), *records[at + 1 :]]


def test_a_good_journal_has_no_faults_at_any_moment() -> None:
    assert faults(GOOD) == []
    for upto in range(1, len(GOOD)):
        assert faults(GOOD[:upto], is_over=False) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (again("leg_started", 1), "attempt 1 comes where 2 is due"),
        (changed("leg_started", 5, attempt=2), "attempt 2 comes where 1 is due"),
        (without("leg_started", 1), "routed is written without a claim"),
        (without("leg_started", 2), "model_reply is written without a claim"),
        (without("leg_started", 6), "model_reply is written without a claim"),
        (again("model_reply", 1), "turn 1 comes where 2 is due"),
        (again("model_reply", 3, later=2), "it is of leg 1, and leg 2 runs"),
        (without("model_reply", 1), "call a1 is begun, which is not open"),
        (without("model_reply", 2), "turn 3 comes where 2 is due"),
        (again("tool_started", 1), "call a1 is begun twice by one claim"),
        (again("tool_started", 1, later=1), "call a1 is begun, which is not open"),
        (again("tool_result", 1), "call a1 is answered, which is not open"),
        (again("tool_result", 1, later=9), "call a1 is answered, which is not open"),
        (without("tool_result", 1), "comes before the answers to ['a1']"),
        (without("tool_result", 8), "turn 2 comes before the answers to ['c2']"),
        (without("handoff_refused"), "turn 3 comes before the answers to ['a4']"),
        (again("handoff_refused"), "call a4 is answered, which is not open"),
        (again("handoff", 2), "it is of leg 1, and leg 2 runs"),
        (without("handoff", 2), "it is of leg 2, and leg 1 runs"),
        (again("suspended"), "suspended is written without a claim"),
        (again("request", later=3), "a journal has one request, at its beginning"),
        (without("request"), "a journal has one request, at its beginning"),
        (again("ended"), "ended comes behind the end"),
        (without("ended"), "the job is over, and its last record is no end"),
        (lambda records: [*records, Noticed(leg=3, text="late")], "notice comes behind the end"),
        (lambda records: [*records[:-1], Retried(leg=3), records[-1]], "a job is retried that had not ended"),
    ],
)
def test_what_is_broken_is_found(change: Change, found: str) -> None:
    said = faults(change(GOOD))
    assert any(found in fault for fault in said), said


def test_every_step_that_is_written_twice_is_found() -> None:
    for at, record in enumerate(GOOD):
        if record.type != "routed":  # the same route does no harm
            assert faults([*GOOD[: at + 1], *GOOD[at:]]), record


def test_a_hole_is_found() -> None:
    for at in range(1, len(GOOD)):
        entries = stored_journal()
        del entries[at - 1]
        said = faults_of_journal(entries, is_over=True)
        assert any("there is a hole" in fault for fault in said), at


def test_a_retried_job_goes_on_behind_its_end() -> None:
    failed = Ended(leg=3, status="failed", reason="ERROR", error="no")
    started = LegStarted(leg=3, agent="reviewer", attempt=1, worker="w")
    retried: list[Record] = [*GOOD[:-1], failed, Retried(leg=3), started, *GOOD[-2:]]
    assert faults(retried) == [], "a reply that was no answer is void, and its turn comes again"
    assert faults(retried[:-1], is_over=True)
    assert any("without a claim" in fault for fault in faults([*retried[:-3], *retried[-2:]]))


def test_a_child_begins_at_its_agent_and_nobody_else_moves_without_a_claim() -> None:
    move = HandedOff(context=first_context(JOB).advance("scout", "look"))
    started = LegStarted(leg=1, agent="scout", attempt=1, worker="w")
    end = Ended(leg=1, status="done", reason="GOAL", answer="found")
    request = JobRequested(prompt="look", agent="scout")
    assert faults([request, move, started, end]) == []
    said = faults([request, move, move.model_copy(update={"leg": 1})], is_over=False)
    assert any("control moves without a claim" in fault for fault in said)


def test_who_ends_a_job_from_outside_closes_its_calls_and_does_nothing_else() -> None:
    at = position("suspended")
    open_call = [record for record in GOOD[: at + 1] if record != GOOD[at - 1]]
    closing = ToolFinished(leg=2, result=ToolResult(call_id="b2", name="bash", content="no", is_error=True))
    end = Ended(leg=2, status="cancelled", reason="ABORTED", error="cancelled")
    assert faults([*open_call, closing, end]) == []
    assert any("['b2']" in fault for fault in faults([*open_call, end]))
    said = faults([*open_call, closing, LegStarted(leg=2, agent="x", attempt=1, worker="w"), end])
    assert any("leg_started is written without a claim" in fault for fault in said)


def test_a_state_that_says_other_things_than_the_journal_is_found() -> None:
    view = JobView(JOB, "done", "reviewer", 3, "q", "h", "", 0, 1, 0, 2, "", "", "GOAL", "ok", None)
    entries = stored_journal()
    assert faults_of_job(view, entries) == []
    assert "the job is failed (GOAL)" in faults_of_job(replace(view, status="failed"), entries)[0]
    assert "the job is at leg 2" in faults_of_job(replace(view, leg=2), entries)[0]
