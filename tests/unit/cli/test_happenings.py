"""What ``ekiden up`` tells of its jobs."""

import asyncio
import io
from collections.abc import Mapping
from typing import Any, cast

from ekiden.dispatcher.cli.running.happenings import MOST, Happenings
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal_cursor import JournalCursor
from ekiden.shared.handoff import first_context
from ekiden.shared.records import Ended, Entry, HandedOff, JobRequested, LegStarted, NodeFinished, Record, Retried
from ekiden.shared.stores.views import JobView

JOB = "abcdefghijklmnop.1"
ROUTE = first_context(JOB).advance("debugger", "routed by rule", is_route=True)
HANDOFF = ROUTE.advance("code-fixer", "cart.py:23 lacks a check")
BEGUN: list[Record] = [
    JobRequested(prompt="it fails"),
    HandedOff(context=ROUTE),
    LegStarted(leg=1, agent="debugger", attempt=1, worker="w"),
]
FAILED = Ended(leg=1, status="failed", reason="TIMEOUT", error="too slow")


def view_of(job: str, *, status: str = "running") -> JobView:
    none = {"leg": 1, "queue": "", "handoff_id": "", "summary": "it fails", "created_ms": 0, "ended_ms": None}
    rest = {"attempts": 1, "depth": 1, "catalog": "", "cwd": "", "reason": None, "result": None, "stop": None}
    return JobView(job, status, "debugger", **none, **rest)  # type: ignore[arg-type]  # fields by name


class Server:
    """Jobs and their journals."""

    def __init__(self) -> None:
        self.journals: dict[str, list[Record]] = {}

    def cursor(self, job: str) -> JournalCursor:
        return JournalCursor(job)

    async def jobs(self, limit: int) -> list[JobView]:
        newest = list(reversed(self.journals.items()))[:limit]
        over = {job: isinstance(records[-1], Ended) for job, records in newest}
        return [view_of(job, status="done" if is_over else "running") for job, is_over in over.items()]

    async def entries(self, job: str) -> list[Entry]:
        return [Entry(seq=seq, at_ms=1_000 * seq, record=one) for seq, one in enumerate(self.journals[job], 1)]

    async def new_entries(self, read: Mapping[str, JournalCursor]) -> dict[str, list[Entry]]:
        return {job: (await self.entries(job))[cursor.seq :] for job, cursor in read.items()}


class Desk:
    """Happenings of a server, line by line."""

    def __init__(self) -> None:
        self.server = Server()
        self._stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        self._happenings = Happenings(cast(Client, self.server), Output(self._stream))

    def looked(self) -> list[str]:
        """Look, and return the lines that are new, without their times."""
        at = self._stream.tell()
        asyncio.run(self._happenings.look())
        self._stream.seek(at)
        return [line.partition(" ")[2] for line in self._stream.read().splitlines()]


def test_a_job_is_a_line_when_it_begins_moves_and_ends() -> None:
    desk = Desk()
    assert desk.looked() == []
    desk.server.journals[JOB] = [*BEGUN]
    assert desk.looked() == [f"🎯 {JOB} debugger: it fails"]
    assert desk.looked() == []
    moved: list[Record] = [HandedOff(leg=1, context=HANDOFF, call_id="c")]
    moved.append(LegStarted(leg=2, agent="code-fixer", attempt=1, worker="w"))
    desk.server.journals[JOB] += [*moved, Ended(leg=2, status="done", reason="GOAL", answer="Repaired.")]
    assert desk.looked() == [
        f"🔀 {JOB} debugger → code-fixer: cart.py:23 lacks a check",
        f"✅ {JOB} code-fixer: Repaired. (5.0 s)",
    ]


def test_a_job_that_fails_and_is_retried_is_told_on() -> None:
    desk = Desk()
    desk.looked()
    desk.server.journals[JOB] = [*BEGUN, FAILED]
    assert desk.looked()[-1] == f"❌ {JOB} debugger failed (TIMEOUT): too slow (3.0 s)"
    desk.server.journals[JOB].append(Retried(leg=1))
    assert desk.looked() == []
    desk.server.journals[JOB].append(Ended(leg=1, status="unfinished", reason="GOAL_NOT_REACHED", answer="No."))
    assert desk.looked() == [f"🚧 {JOB} debugger unfinished (GOAL_NOT_REACHED): No. (5.0 s)"]


def test_what_was_before_is_not_told_but_goes_on_from_there() -> None:
    desk = Desk()
    desk.server.journals = {"over" + JOB: [*BEGUN, FAILED], JOB: [*BEGUN]}
    assert desk.looked() == []
    desk.server.journals[JOB].append(FAILED)
    assert desk.looked() == [f"❌ {JOB} debugger failed (TIMEOUT): too slow (3.0 s)"]


def test_a_flood_of_jobs_is_said_to_be_one() -> None:
    desk = Desk()
    desk.looked()
    desk.server.journals = {f"{JOB}{number}": [*BEGUN] for number in range(MOST + 5)}
    lines = desk.looked()
    assert len(lines) == MOST + 1
    assert "💡 more jobs began than are told: `ekiden jobs` lists them" in lines


def test_a_node_that_fails_and_is_tried_again_or_given_up_is_a_line() -> None:
    desk = Desk()
    desk.looked()
    desk.server.journals[JOB] = [*BEGUN]
    desk.looked()
    about: dict[str, Any] = {"leg": 1, "graph": "flow", "run": 1, "node": "send", "channel": "send"}
    failed = NodeFinished(**about, error="unfinished: no such mailbox", call_id="send#1")
    given = NodeFinished(**about, output="sent", call_id="send#1/3")
    desk.server.journals[JOB] += [failed.model_copy(update={"again": True}), failed, given]
    assert desk.looked() == [
        f"✗ {JOB} flow: send failed, is tried again: unfinished: no such mailbox",
        f"✗ {JOB} flow: send failed: unfinished: no such mailbox",
    ]
