"""The look at pools and queues, once and again."""

import asyncio
import dataclasses
import io
import json
from typing import Any, cast

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views import status_watch
from ekiden.dispatcher.cli.views.status import RunningJob, StatusSnapshot, show_status, status_json
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import ApprovalView
from ekiden.shared.cells import width_of
from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.records import Entry, LegSuspended, ToolStarted
from ekiden.shared.stores.dead_letters import DeadLetter, DeadLetters
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import JobView, PoolView
from tests.unit.cli.inbox import NOON_MS, asked
from tests.unit.cli.test_happenings import view_of

POOL = PoolView("vm.1", "worker", ("ekiden.agent.debugger",), in_flight=3, capacity=50)
QUEUES = [QueueView("ekiden.agent.debugger", 2, ("vm.1",)), QueueView("ekiden.dispatch", 1, ())]

JOBS: list[JobView] = []
ASKED: list[ApprovalView] = []
DEAD = DeadLetters(
    3, DeadLetter("1700000000000-0", 1700000000000, "ekiden.dispatch", "it is no message of ours", b"hi")
)


class Server:
    """Answers a few times, then not."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    async def pools(self) -> list[PoolView]:
        self.answers -= 1
        if self.answers < 0:
            raise StoreUnavailable("gone")
        return [POOL]

    async def queues(self) -> list[QueueView]:
        return QUEUES

    async def approvals(self) -> list[ApprovalView]:
        return ASKED

    async def now_ms(self) -> int:
        return 70_000

    async def jobs(self, limit: int) -> list[JobView]:
        return JOBS[:limit]

    async def newest_entries(self, job: JobView, count: int) -> list[Entry]:
        started = Entry(seq=1, at_ms=1, record=ToolStarted(leg=1, call_id="c", name="bash"))
        paused = Entry(seq=2, at_ms=2, record=LegSuspended(leg=1, cause="limit", delay_s=60, detail="m's limit"))
        return [started] if job.status == "running" else [started, paused]

    async def look_at_dead_letters(self) -> DeadLetters:
        return DEAD


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("bubblewrap", "bubblewrap"),
        ("landlock (no bubblewrap: no bwrap); open: network open", "landlock"),
        ("no sandbox (tools.sandbox is 'off'); open: network open", "no sandbox"),
        ("landlock; open: network open", "landlock"),
    ],
)
def test_a_pool_shows_what_confines_its_commands(told: str, shown: str) -> None:
    text = io.StringIO()
    one = StatusSnapshot([dataclasses.replace(POOL, sandbox=told)], [], DeadLetters(0, None))
    show_status(Output(text), one)
    heading, line = text.getvalue().splitlines()[:2]
    assert line[heading.index("SANDBOX") :].startswith(f"{shown}  ")
    assert json.loads(status_json(one))["pools"][0]["sandbox"] == told


def test_a_server_that_does_not_work_is_told_with_its_pool() -> None:
    text = io.StringIO()
    servers = {"time": "", "crm": "it does not answer within 20 s"}
    show_status(Output(text), StatusSnapshot([dataclasses.replace(POOL, servers=servers)], [], DeadLetters(0, None)))
    assert "MCP server 'crm' does not work at vm.1: it does not answer within 20 s" in text.getvalue()
    assert "'time'" not in text.getvalue()


def test_a_pool_shows_its_lag_and_that_it_leaves_messages_to_others() -> None:
    def shown(**extra: str) -> str:
        text = io.StringIO()
        show_status(Output(text), StatusSnapshot([dataclasses.replace(POOL, extra=extra)], [], DeadLetters(0, None)))
        return text.getvalue()

    assert "340 ms, busy" in shown(lag_ms="340", busy="yes")
    assert "3 ms " in shown(lag_ms="3", busy="no")
    assert "busy" not in shown(lag_ms="3", busy="no")
    assert " - " in shown(), "an older pool does not tell"
    found = StatusSnapshot(
        [dataclasses.replace(POOL, extra={"lag_ms": "340", "busy": "yes"})], [], DeadLetters(0, None)
    )
    [pool] = json.loads(status_json(found))["pools"]
    assert pool["extra"] == {"lag_ms": "340", "busy": "yes"}


def looked(answers: int, *, as_json: bool) -> str:
    found = asyncio.run(status_watch._look(cast(Client, Server(answers))))
    return status_watch._json_of(found) if as_json else status_watch.block_of(found)


def test_a_look_has_the_time_the_pools_and_the_queues() -> None:
    lines = looked(1, as_json=False).splitlines()
    assert [len(part) for part in lines[0].split(":")] == [2, 2, 2]
    assert any(line.split()[:3] == ["vm.1", "worker", "3"] for line in lines)
    assert any(line.split() == ["ekiden.dispatch", "1", "0", "no", "consumer"] for line in lines)


def test_as_json_a_look_is_the_line_that_status_prints() -> None:
    assert looked(1, as_json=True) == status_json(StatusSnapshot([POOL], QUEUES, DEAD))
    assert json.loads(looked(1, as_json=True))["dead_letters"] == {
        "count": 3,
        "newest": {
            "id": "1700000000000-0",
            "at_ms": 1700000000000,
            "queue": "ekiden.dispatch",
            "reason": "it is no message of ours",
        },
    }


def test_jobs_that_run_are_shown_with_agent_age_and_step(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [view_of("b.1", status="suspended"), view_of("a.1"), view_of("c.1", status="done")]
    monkeypatch.setitem(globals(), "JOBS", jobs)
    lines = [line.split() for line in looked(1, as_json=False).splitlines()]
    assert ["a.1", "running", "debugger", "1m10s", "tool", "call:", "bash", "it", "fails"] in lines
    assert ["b.1", "suspended", "debugger", "1m10s", "waits", "for", "m's", "limit", "it", "fails"] in lines
    first, second = json.loads(looked(1, as_json=True))["jobs"]
    assert (first["id"], first["age_ms"], first["step"]) == ("a.1", 70_000, "tool_call: bash")
    assert second["id"] == "b.1"


def test_dead_letters_are_counted_with_the_newest_reason() -> None:
    last = looked(1, as_json=False).splitlines()[-1]
    assert last.startswith("Dead letters: 3, the newest in ekiden.dispatch: it is no message of ours (")


def test_what_waits_for_people_is_counted_with_the_time_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Waiting for people" not in looked(1, as_json=False)
    assert json.loads(looked(1, as_json=True))["approvals"] == {"waiting": 0, "expires_ms": None}
    monkeypatch.setitem(globals(), "ASKED", [asked(1), asked(2, expires_at_ms=NOON_MS)])
    line = next(line for line in looked(1, as_json=False).splitlines() if line.startswith("Waiting for people: 2, the"))
    assert "until 2026-" in line
    assert "`ekiden approvals list` shows them" in line
    assert json.loads(looked(1, as_json=True))["approvals"] == {"waiting": 2, "expires_ms": NOON_MS}


def test_a_queue_whose_name_stands_for_no_list_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "QUEUES", [QueueView("ekiden.dispatch", 0, ("vm.1",), is_blocked=True)])
    assert "no list stands under its name" in looked(1, as_json=False)


def test_a_server_that_is_away_is_waited_for() -> None:
    assert looked(0, as_json=False).splitlines()[1:] == ["the server does not answer: gone"]
    assert json.loads(looked(0, as_json=True)) == {"error": "StoreUnavailable"}


LOOK = StatusSnapshot([POOL], QUEUES, DEAD, jobs=[RunningJob("a.1", "running", "debugger", 70_000, "", "修复" * 30)])
AWAY = StoreUnavailable("gone")


def test_blocks_come_one_after_the_other_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with status_watch._screen(as_json=False) as show:
        show(LOOK)
        show(AWAY)
    assert capsys.readouterr().out.splitlines()[-1] == "the server does not answer: gone"


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 200])
def test_a_block_is_as_wide_as_the_terminal_and_loses_no_word_of_it(columns: int) -> None:
    lines = status_watch.block_of(LOOK, columns).splitlines()

    assert max(map(width_of, lines)) <= columns
    told = "".join(map(str.strip, lines))
    assert told.count("修复") == 30
    assert "ekiden.agent.debugger" in told


@pytest.mark.parametrize("rows", [1, 2, 5, 12])
def test_where_the_terminal_has_too_few_lines_the_last_says_how_many_more_there_are(rows: int) -> None:
    whole = status_watch.block_of(LOOK, 60).splitlines()
    lines = status_watch.block_of(LOOK, 60, rows).splitlines()

    assert len(lines) == rows
    assert lines[1:-1] == whole[1 : rows - 1]
    assert lines[-1] == f"... {len(whole) - rows + 1} more lines (`ekiden status`)"
    assert status_watch.block_of(LOOK, 60, len(whole)).splitlines()[1:] == whole[1:]


def test_on_a_terminal_a_block_takes_the_place_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Terminal(Output):
        is_terminal = True
        height = 5

    class Live:
        def __init__(self, **_: Any) -> None: ...

        def __enter__(self) -> "Live":
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, block: Any, *, refresh: bool) -> None:
            assert refresh
            shown.append(str(block))

    terminal = Terminal(io.StringIO(), 60)
    monkeypatch.setattr(status_watch, "Live", Live)
    monkeypatch.setattr(status_watch, "Output", lambda *given: Output(*given) if given else terminal)
    with status_watch._screen(as_json=False) as show:
        show(LOOK)
    assert [len(block.splitlines()) for block in shown] == [4]
