"""Any interleaving of what clients, workers and sweepers do keeps the store's invariants."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ekiden.shared.approvals import Answer
from ekiden.shared.errors import InvalidRequest, JobCancelled, LostLease, SessionBusy, StopFlag
from ekiden.shared.handoff import first_context
from ekiden.shared.records import Decided, Ended, Entry, LegSuspended, Record, Retried
from ekiden.shared.relay.answering import decision_of
from ekiden.shared.relay.message import outbox
from ekiden.shared.relay.sweeper import end_overdue, sweep
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed, OnBusy
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any, connect
from ekiden.shared.stores.views import JobView
from tests.contract.relay_world import claim_of, done, reply, step_to, submission
from tests.contract.rewinding import Memory, remembered, rewind
from tests.contract.test_approvals import asking
from tests.doubles.clocks import let_clock_be_set, set_clock
from tests.servers import shared_url

T = TypeVar("T")

MAX_ATTEMPTS = 3
AGENTS = ("a", "b", "c")
FAILED = Ended(status="failed", reason="ERROR", error="no")
ENDS: dict[StopFlag, Ended] = {
    "user": Ended(status="cancelled", reason="ABORTED"),
    "deadline": Ended(status="failed", reason="TIMEOUT", error="late"),
}


class StoreMachine(RuleBasedStateMachine):
    """One session; jobs, workers and a sweeper do whatever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.patching = pytest.MonkeyPatch()
        let_clock_be_set(self.patching)
        self.stores = Stores.on(connect(shared_url()))
        self.jobs: list[str] = []
        self.held: list[Claimed] = []
        self.ended: dict[str, str] = {}
        self.read: dict[str, list[Entry]] = {}
        """The journal as each writer knows it, by its fence."""
        self.past: tuple[Memory, list[str], dict[str, str], set[str]] | None = None
        self.is_due: set[str] = set()
        """Jobs whose lease has run out, or whose timer has rung."""
        self.count = 0
        self.do(self._begin())

    async def _begin(self) -> None:
        await self.stores.client.flushall()
        for _ in range(2):  # a pool has watched the clock before anything begins
            await self.stores.jobs.clock.passed_ms()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)  # a Runner would set a signal handler each time

    def teardown(self) -> None:
        """However it went: swept and served, every job comes to an end."""
        for _ in range(200):
            open_jobs = [job for job in self.jobs if not self.view(job).is_over]
            if not open_jobs:
                break
            for job in open_jobs:
                self.expire(job)
                self.do(self._finish_if_claimable(job))
            self.sweep()
        assert all(self.view(job).is_over for job in self.jobs)
        self.do(self.stores.close())
        self.loop.close()
        self.patching.undo()

    async def _finish_if_claimable(self, job: str) -> None:
        leg = await self.stores.jobs.claim(await claim_of(self.stores, job, self.name()), 60)
        if isinstance(leg, Claimed):
            end = ENDS[leg.stop] if leg.stop else done(leg=leg.lease.leg)
            await self.stores.jobs.finish(leg.lease, self.name(), [end], [])

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def view(self, job: str) -> JobView:
        return self.do(self.stores.jobs.job(job))

    def some_job(self, pick: int) -> str:
        return self.jobs[pick % len(self.jobs)]

    def some_leg(self, pick: int) -> Claimed:
        return self.held[pick % len(self.held)]

    # What clients do.

    @precondition(lambda self: len(self.jobs) < 4)
    @rule(on_busy=st.sampled_from(["queue", "reject", "interrupt"]))
    def submit(self, on_busy: OnBusy) -> None:
        session = self.jobs[0].partition(".")[0] if self.jobs else None
        job = self.do(self.stores.jobs.reserve(session, self.name()))
        try:
            self.do(self.stores.jobs.submit(submission(job), on_busy))
        except SessionBusy:
            return
        self.jobs.append(job)

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99), flag=st.sampled_from(["user", "deadline"]))
    def stop(self, pick: int, flag: StopFlag) -> None:
        self.do(self.stores.jobs.stop(self.some_job(pick), flag, [ENDS[flag]], []))

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def retry(self, pick: int) -> None:
        view = self.view(self.some_job(pick))
        box = outbox(view.id, view.leg, view.queue, first_context(view.id).with_id(view.handoff_id))
        try:
            self.do(self.stores.jobs.retry(view.id, box, Retried(leg=view.leg), 3600.0))
        except InvalidRequest:
            assert view.status not in ("failed", "dead")
        else:
            assert self.ended.pop(view.id) in ("failed", "dead")

    # What workers do; most of these legs are stale by then.

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def claim(self, pick: int) -> None:
        job = self.some_job(pick)
        got = self.do(self.stores.jobs.claim(self.do(claim_of(self.stores, job, self.name())), 60))
        if isinstance(got, Claimed):
            self.held.append(got)
            assert got.lease.fence not in self.read, "no two claims look alike"
            self.read[got.lease.fence] = self.do(self.stores.jobs.journal(job))
            self.is_due.discard(job)

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), progress=st.booleans())
    def append(self, pick: int, progress: bool) -> None:
        leg = self.some_leg(pick)
        record = reply(self.name(), leg.lease.leg)
        try:
            self.do(self.stores.jobs.append(leg.lease, self.name(), [record], used_ms=1, is_progress=progress))
        except (LostLease, JobCancelled):
            return
        entries = self.do(self.stores.jobs.journal(leg.lease.job))
        *known, last = entries
        assert known == self.read[leg.lease.fence], "only the owner writes, and only behind what it knows"
        assert last.record == record
        self.read[leg.lease.fence] = entries

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), to=st.sampled_from(AGENTS))
    def transfer(self, pick: int, to: str) -> None:
        leg = self.some_leg(pick)
        self.do(self.stores.jobs.transfer(leg.lease, self.name(), **step_to(leg, to, max_depth=4)))

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99))
    def give_back(self, pick: int) -> None:
        leg = self.some_leg(pick)
        before = self.do(self.stores.jobs.views([leg.lease.job]))
        verdict = self.do(self.stores.jobs.give_back(leg.lease))
        for was, is_now in zip(before, self.do(self.stores.jobs.views([leg.lease.job])), strict=True):
            assert max(0, was.attempts - 1) <= is_now.attempts <= was.attempts
            assert is_now.status == ("queued" if verdict == "ok" else was.status)

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), delay_s=st.sampled_from([0.0, 3600.0]))
    def suspend(self, pick: int, delay_s: float) -> None:
        leg = self.some_leg(pick)
        record = LegSuspended(leg=leg.lease.leg, cause="retry", delay_s=delay_s)
        verdict, _ = self.do(self.stores.jobs.suspend(leg.lease, self.name(), [record], delay_s))
        if verdict == "ok":
            (self.is_due.discard if delay_s else self.is_due.add)(leg.lease.job)

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), count=st.integers(1, 3), timeout_s=st.sampled_from([0.0, 1800.0]))
    def ask(self, pick: int, count: int, timeout_s: float) -> None:
        leg = self.some_leg(pick)
        job, number = leg.lease.job, leg.lease.leg
        first = len(self.do(self.stores.jobs.asked([job]))) + 1
        asked: list[Record] = [asking(job, n, number, timeout_s) for n in range(first, first + count)]
        pause = LegSuspended(leg=number, cause="approval", delay_s=timeout_s)
        if self.do(self.stores.jobs.suspend(leg.lease, self.name(), [*asked, pause], 0.0))[0] == "ok":
            (self.is_due.discard if timeout_s else self.is_due.add)(job)

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99), status=st.sampled_from(["approved", "denied"]))
    def answer(self, pick: int, status: Any) -> None:
        """Somebody answers one of those that were ever asked."""
        if views := self.do(self.stores.jobs.asked(self.jobs)):
            view = views[pick % len(views)]
            decided = decision_of(view, Answer(status, view.digest, by="anna"), is_claimed=True)
            verdict = self.do(self.stores.jobs.decide(decided))
            assert verdict != "ok" or view.status == "waiting"
            assert verdict != "decided" or view.status != "waiting"

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), end=st.sampled_from([done(), FAILED, *ENDS.values()]))
    def finish(self, pick: int, end: Ended) -> None:
        leg = self.some_leg(pick)
        self.do(self.stores.jobs.finish(leg.lease, self.name(), [end.model_copy(update={"leg": leg.lease.leg})], []))

    # What goes wrong, and what mends it.

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def worker_dies(self, pick: int) -> None:
        self.expire(self.some_job(pick))

    def expire(self, job: str) -> None:
        client = self.stores.client
        self.is_due.add(job)
        for index in (keys.LEASES, keys.TIMERS):
            self.do(as_any(client.zadd(index, {job: 1}, xx=True)))
        for view in self.do(self.stores.jobs.waiting(job)):
            self.do(as_any(client.zadd(keys.APPROVALS, {view.id: 1}, xx=True)))

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def message_is_lost(self, pick: int) -> None:
        self.do(as_any(self.stores.client.rpop(self.view(self.some_job(pick)).queue)))

    @rule(ahead_s=st.sampled_from([0, 3_600, -3_600, 8 * 86_400]))
    def clock_is_set(self, ahead_s: int) -> None:
        self.do(set_clock(self.stores, ahead_s))

    @rule()
    def sweep(self) -> None:
        before = {view.id: view.status for view in map(self.view, self.jobs)}
        assert self.do(end_overdue(self.stores.jobs)) == 0, "no deadline passes, whatever the clock says"
        self.do(sweep(self.stores.jobs, grace_s=0.0, max_attempts=MAX_ATTEMPTS))
        for job in self.jobs:
            if before[job] in ("running", "suspended") and job not in self.is_due:
                assert self.view(job).status == before[job], "and what is not due is left alone"

    @rule()
    def remember(self) -> None:
        self.past = (self.do(remembered(self.stores)), list(self.jobs), dict(self.ended), set(self.is_due))

    @precondition(lambda self: self.past)
    @rule()
    def rewind(self) -> None:
        assert self.past is not None
        known, jobs, ended, is_due = self.past
        self.do(rewind(self.stores, known))
        self.jobs, self.ended, self.is_due = list(jobs), dict(ended), set(is_due)

    # What always holds.

    @invariant()
    def all_holds(self) -> None:
        now = self.do(look(self.stores, self.jobs))
        every_unfinished_job_can_be_found_by_whoever_must_wake_it(now)
        who_waits_for_people_has_asked_them_and_nobody_else_is_asked(now)
        one_job_of_the_session_runs_and_the_others_wait_in_its_inbox(now)
        the_end_is_final_and_recorded_once(now, self.ended)


@dataclass(frozen=True)
class Now:
    """What a store says at a moment: of each job its view, its journal, and the indexes that it is in."""

    views: list[JobView]
    journals: list[list[Entry]]
    indexes: list[dict[str, float]]
    waiting: list[str]
    """Who waits for people, as the store tells it."""
    asked: list[str]
    """Who does, as the index of approvals has it."""
    active: str | None = None
    inbox: list[str] = field(default_factory=list)


async def look(stores: Stores, jobs: list[str]) -> Now:
    """Read all of it; in few round trips, as there are thousands of moments."""
    views = await asyncio.gather(*map(stores.jobs.job, jobs))
    journals = await asyncio.gather(*map(stores.jobs.journal, jobs))
    waiting = [view.id for view in await stores.jobs.waiting()]
    session = jobs[0].partition(".")[0] if jobs else None
    async with stores.client.pipeline(transaction=False) as asking:
        for view in views:
            for index in indexes_of(view).values():
                asking.zscore(index, view.id)
        asking.zrange(keys.APPROVALS, 0, -1)
        asking.lrange(keys.inbox(session or ""), 0, -1)
        *scores, asked, inbox = await asking.execute()
    each = iter(scores)
    found = [
        {name: score for name, score in zip(names, islice(each, len(names)), strict=True) if score is not None}
        for names in map(indexes_of, views)
    ]
    active = (await stores.sessions.session(session)).active if session else None
    return Now(views, journals, found, waiting, asked, active, inbox)


def indexes_of(view: JobView) -> dict[str, str]:
    """Return where the job may be listed."""
    causes = {cause: keys.suspended(cause) for cause in keys.CAUSES}
    by_status = {"running": keys.LEASES, "suspended": keys.TIMERS, "queued": keys.queued(view.queue)}
    return {**by_status, **causes, "deadline": keys.DEADLINES}


def every_unfinished_job_can_be_found_by_whoever_must_wake_it(now: Now) -> None:
    for view, found in zip(now.views, now.indexes, strict=True):
        statuses = {"running", "suspended", "queued"}
        assert found.keys() & statuses == statuses & {view.status}
        assert len(found.keys() & set(keys.CAUSES)) == (view.status == "suspended")
        assert ("deadline" not in found) == (view.is_over or view.stop is not None)


def who_waits_for_people_has_asked_them_and_nobody_else_is_asked(now: Now) -> None:
    assert set(now.waiting) == set(now.asked)
    paused = {view.id for view, found in zip(now.views, now.indexes, strict=True) if "approval" in found}
    assert {approval.rpartition(":")[0] for approval in now.waiting} == paused
    for entries in now.journals:
        decided = [entry.record.id for entry in entries if isinstance(entry.record, Decided)]
        assert len(decided) == len(set(decided)), "what is decided is decided once"


def one_job_of_the_session_runs_and_the_others_wait_in_its_inbox(now: Now) -> None:
    running = [view.id for view in now.views if view.status in ("queued", "running", "suspended")]
    assert len(running) <= 1
    assert now.active == (running[0] if running else None)
    waiting = {view.id for view in now.views if view.status == "waiting"}
    assert waiting <= set(now.inbox)
    assert not waiting or running, "nobody waits for nothing"


def the_end_is_final_and_recorded_once(now: Now, ended: dict[str, str]) -> None:
    for view, entries in zip(now.views, now.journals, strict=True):
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        kinds = [entry.record.type for entry in entries]
        assert kinds[0] == "request"
        assert kinds.count("ended") - kinds.count("retried") == int(view.is_over)
        if view.is_over:
            assert kinds[-1] == "ended"
            assert ended.setdefault(view.id, view.status) == view.status, "an end does not change"


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
