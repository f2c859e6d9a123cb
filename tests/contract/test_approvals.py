"""The contract of JobStore and of the client for approvals: asked by a suspension, decided once, or expired."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden.dispatcher.approvals import Approvals
from ekiden.shared.approvals import Answer, ApprovalView, digest_of
from ekiden.shared.composition import LateHooks
from ekiden.shared.errors import AlreadyDecided, ApprovalGone, Forged, InvalidRequest, NotAnApprover, NotPermitted
from ekiden.shared.hooks.base import Hook
from ekiden.shared.outcomes import Suspended
from ekiden.shared.records import ApprovalAsked, Decided, Ended, LegSuspended, Record
from ekiden.shared.relay.sweeper import end_overdue, sweep
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.signing import Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import JobView
from tests.conftest import Backend
from tests.contract.relay_world import claim_of, claimed, done, moved, submitted
from tests.contract.rewinding import remembered, rewind
from tests.contract.test_children import children_of, suspended_on

DAY_S = 86_400.0
ARGS = {"command": "make test"}
CANCELLED = Ended(leg=1, status="cancelled", reason="ABORTED", error="cancelled")


class Inbox(Approvals):
    """The client's part that is tested, on a store of the test."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._hooks = LateHooks("test")

    async def children(self, job: str) -> list[JobView]:
        return await self._stores.jobs.views([f"{job}.{n}" for n in range(1, 9)])


class Heard(Hook):
    def __init__(self) -> None:
        self.decided: list[ApprovalView] = []

    def approval_decided(self, view: ApprovalView) -> None:
        self.decided.append(view)


def asking(job: str, n: int, leg: int = 1, timeout_s: float = DAY_S, **more: Any) -> ApprovalAsked:
    """What call ``c<n>`` of the leg asks."""
    args = {**ARGS, "n": n}
    return ApprovalAsked(
        leg=leg,
        id=f"{job}:{n}",
        call_id=f"c{n}",
        tool="bash",
        args=args,
        digest=digest_of("bash", args),
        agent="lead",
        definition="d1",
        timeout_s=timeout_s,
        **more,
    )


async def suspended_for(stores: Stores, leg: Claimed, *asked: ApprovalAsked) -> None:
    """Suspend ``leg`` on approvals."""
    records: list[Record] = [*asked, LegSuspended(leg=leg.lease.leg, cause="approval", delay_s=0)]
    assert await stores.jobs.suspend(leg.lease, f"{leg.lease.fence}.s", records, 0.0) == ("ok", "")


async def parked(stores: Stores, count: int = 1, timeout_s: float = DAY_S, **more: Any) -> str:
    """A job whose leg waits for so many approvals."""
    job = await submitted(stores)
    leg = await moved(stores, job, "lead")
    await suspended_for(stores, leg, *(asking(job, n, timeout_s=timeout_s, **more) for n in range(1, count + 1)))
    return job


async def answered(stores: Stores, approval: str, status: Any = "approved", **more: Any) -> ApprovalView:
    """Answer as somebody who has looked at it."""
    inbox = Inbox(stores)
    view = await inbox.approval(approval)
    return await inbox.answer(approval, Answer(status, view.digest, **{"by": "anna", **more}))


async def status_of(stores: Stores, job: str) -> str:
    """The job's status; while it waits for answers, and only then, it is listed so."""
    status = (await stores.jobs.job(job)).status
    is_listed = await as_any(stores.client.zscore(keys.suspended("approval"), job)) is not None
    assert is_listed == (status == "suspended")
    return status


async def decisions_in(stores: Stores, job: str) -> list[tuple[str, str, str]]:
    records = [entry.record for entry in await stores.jobs.journal(job)]
    return [(one.id.rpartition(":")[2], one.status, one.by) for one in records if isinstance(one, Decided)]


async def swept(stores: Stores, hooks: Hook | None = None) -> None:
    await sweep(stores.jobs, grace_s=1000, max_attempts=5, hooks=hooks or Hook())


def test_a_suspension_asks_and_holds_no_worker(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, reason="bash is of medium risk", rule="default by risk", preview="make")
        assert await status_of(stores, job) == "suspended"
        assert await stores.jobs.claim(await claim_of(stores, job), 30) == "suspended"
        [view] = await Inbox(stores).approvals()
        assert (view.id, view.job, view.leg, view.agent, view.definition) == (f"{job}:1", job, 1, "lead", "d1")
        assert (view.tool, view.args, view.status, view.risk) == ("bash", {**ARGS, "n": 1}, "waiting", "medium")
        assert (view.reason, view.rule, view.preview) == ("bash is of medium risk", "default by risk", "make")
        now_ms = await stores.now_ms()
        assert 0 <= now_ms - view.asked_at_ms < 60_000
        assert await Inbox(stores).approval(f"{job}:1") == view
        await swept(stores)
        assert await status_of(stores, job) == "suspended", "no timer has rung"

    backend.run(scenario)


def test_an_approval_waits_no_longer_than_its_job_and_says_so(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, timeout_s=DAY_S)  # the job has an hour
        [view] = await Inbox(stores).approvals()
        assert view.ends_with_job
        assert 3500_000 < view.expires_at_ms - view.asked_at_ms <= 3600_000
        assert view.timeout_s == DAY_S
        await stop_job(stores.jobs, job, "deadline")
        assert (await Inbox(stores).approval(view.id)).status == "void"

        briefly = await submitted(stores, request_id="r2")
        await suspended_for(stores, await moved(stores, briefly, "lead"), asking(briefly, 1, timeout_s=30.0))
        [view] = await Inbox(stores).approvals(job=briefly)
        assert (view.ends_with_job, view.expires_at_ms - view.asked_at_ms) == (False, 30_000)

    backend.run(scenario)


def test_an_answer_wakes_the_leg_once_and_is_in_the_journal_then(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores)
        sends = int(await as_any(stores.client.hget(keys.job(job), "sends")))
        view = await answered(stores, f"{job}:1", why="as agreed", origin="laptop", edited={"command": "make"})
        assert (view.status, view.by, view.is_claimed, view.why) == ("approved", "anna", True, "as agreed")
        assert view.edited == {"command": "make"}
        assert await status_of(stores, job) == "queued"
        assert int(await as_any(stores.client.hget(keys.job(job), "sends"))) == sends + 1
        last = (await stores.jobs.journal(job))[-1].record
        assert isinstance(last, Decided)
        assert (last.leg, last.call_id, last.origin, last.edited) == (1, "c1", "laptop", {"command": "make"})
        assert await Inbox(stores).approvals() == []
        [kept] = await Inbox(stores).approvals(job=job, waiting=False)
        assert replace(kept, decided_at_ms=0) == replace(view, decided_at_ms=0)
        leg = await claimed(stores, job)
        assert (leg.attempt, leg.lease.seq) == (1, (await stores.jobs.job(job)).seq)
        assert (await stores.jobs.finish(leg.lease, "f", [done()], []))[0] == "ok"

    backend.run(scenario)


def test_several_are_answered_in_any_order_and_the_last_answer_wakes(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, 3)
        await answered(stores, f"{job}:3")
        await answered(stores, f"{job}:1", "denied", by="ben")
        assert await status_of(stores, job) == "suspended"
        assert [one.id for one in await Inbox(stores).approvals()] == [f"{job}:2"]
        await answered(stores, f"{job}:2")
        assert await status_of(stores, job) == "queued"
        assert await decisions_in(stores, job) == [
            ("3", "approved", "anna"),
            ("1", "denied", "ben"),
            ("2", "approved", "anna"),
        ]

    backend.run(scenario)


def test_the_first_answer_counts_and_the_second_is_told_whose_it_was(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, 2)
        answers = [answered(stores, f"{job}:1", status, by=by) for status, by in (("approved", "a"), ("denied", "b"))]
        first, second = await asyncio.gather(*answers, return_exceptions=True)
        [won] = [one for one in (first, second) if isinstance(one, ApprovalView)]
        [lost] = [one for one in (first, second) if not isinstance(one, ApprovalView)]
        assert isinstance(lost, AlreadyDecided)
        assert lost.by == won.by
        assert lost.at_ms > 0
        assert f"was {won.status} by {won.by} (by their own word) at 20" in str(lost)
        assert len(await decisions_in(stores, job)) == 1

    backend.run(scenario)


def test_an_answer_that_is_sent_again_after_a_lost_reply_is_the_same(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, 2)
        run = stores.jobs._scripts.run

        async def twice(name: str, /, **given: Any) -> list[str]:
            await run(name, **given)
            return await run(name, **given)

        stores.jobs._scripts.run = twice  # type: ignore[method-assign]
        assert (await answered(stores, f"{job}:1")).status == "approved"
        assert len(await decisions_in(stores, job)) == 1

    backend.run(scenario)


def test_what_nobody_answers_expires_and_the_leg_goes_on(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        heard = Heard()
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        asked = [asking(job, 1, timeout_s=0.0), asking(job, 2), asking(job, 3, timeout_s=0.0)]
        await suspended_for(stores, leg, *asked)
        with pytest.raises(ApprovalGone, match="has expired: the call was denied"):
            await answered(stores, f"{job}:1")
        await swept(stores, heard)
        assert await status_of(stores, job) == "suspended", "one can still be answered"
        assert [(one.id, one.status) for one in heard.decided] == [(f"{job}:1", "expired"), (f"{job}:3", "expired")]
        assert await decisions_in(stores, job) == [("1", "expired", ""), ("3", "expired", "")]
        await swept(stores, heard)
        assert len(heard.decided) == 2
        with pytest.raises(ApprovalGone, match="has expired"):
            await answered(stores, f"{job}:3")
        await answered(stores, f"{job}:2")
        assert await status_of(stores, job) == "queued"
        assert await as_any(stores.client.zcard(keys.TIMERS)) == 0

    backend.run(scenario)


def test_expiry_and_an_answer_at_once_give_one_decision(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for n in range(10):
            job = await submitted(stores, request_id=f"r{n}")
            await suspended_for(stores, await moved(stores, job, "lead"), asking(job, 1, timeout_s=0.05))
            view = await Inbox(stores).approval(f"{job}:1")

            async def answer(view: ApprovalView = view, pause_s: float = n / 100) -> object:
                await asyncio.sleep(pause_s)
                return await Inbox(stores).answer(view.id, Answer("approved", view.digest, by="anna"))

            async def expire(job: str = job) -> None:
                while await status_of(stores, job) == "suspended":
                    await swept(stores)

            said, _ = await asyncio.gather(answer(), expire(), return_exceptions=True)
            [(_, status, _)] = await decisions_in(stores, job)
            assert (status == "approved") == isinstance(said, ApprovalView), said
            assert status == "approved" or isinstance(said, ApprovalGone)
            await claimed(stores, job)

    backend.run(scenario)


def test_an_answer_to_another_call_than_the_one_that_was_shown_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores)
        inbox = Inbox(stores)
        with pytest.raises(InvalidRequest, match="about another call"):
            await inbox.answer(f"{job}:1", Answer("approved", digest_of("bash", {"command": "rm -rf /"}), by="anna"))
        other = Decided(leg=1, id=f"{job}:1", call_id="c1", tool="bash", digest="other", status="approved")
        assert await stores.jobs.decide(other) == "another"
        assert await decisions_in(stores, job) == []
        for gone in (f"{job}:2", f"{job}9:1", "nonsense", "{x}:1"):
            with pytest.raises(ApprovalGone, match="there is no approval"):
                await inbox.answer(gone, Answer("approved", "d", by="anna"))

    backend.run(scenario)


def test_questions_are_answered_and_calls_approved(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        question = asking(job, 2, kind="question", text="Which branch?", choices=("main", "next"))
        await suspended_for(stores, leg, asking(job, 1), question)
        wrong: list[tuple[str, str, dict[str, Any], str]] = [
            (f"{job}:1", "answered", {"answer": "main"}, "is a call"),
            (f"{job}:2", "approved", {}, "is a question"),
            (f"{job}:2", "answered", {}, "has no text"),
            (f"{job}:2", "answered", {"answer": "old"}, "can be answered with 'main', 'next'"),
            (f"{job}:1", "denied", {"edited": {}}, "only a call that is approved can be changed"),
        ]
        for approval, status, more, why in wrong:
            with pytest.raises(InvalidRequest, match=why):
                await answered(stores, approval, status, **more)
        assert (await answered(stores, f"{job}:2", "answered", answer="next")).answer == "next"
        assert (await answered(stores, f"{job}:1", "denied", why="not today")).why == "not today"

    backend.run(scenario)


@pytest.mark.parametrize("how", ["user", "deadline", "overdue"])
def test_the_end_of_a_job_withdraws_what_it_asks(backend: Backend, how: str) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores, 2)
        await answered(stores, f"{job}:1")
        match how:
            case "user":
                assert await stop_job(stores.jobs, job, "user") == "ok"
            case "deadline":
                assert await stop_job(stores.jobs, job, "deadline") == "ok"
            case _:
                await stores.client.zadd(keys.DEADLINES, {job: 1})
                assert await end_overdue(stores.jobs) == 1
        assert await Inbox(stores).approvals() == []
        assert await as_any(stores.client.zcard(keys.APPROVALS)) == 0
        assert [one.status for one in await Inbox(stores).approvals(job=job, waiting=False)] == ["approved", "void"]
        with pytest.raises(ApprovalGone, match="its job has ended"):
            await answered(stores, f"{job}:2")
        with pytest.raises(AlreadyDecided):
            await answered(stores, f"{job}:1")

    backend.run(scenario)


def test_what_a_child_asks_is_listed_with_the_jobs_above_it_and_ends_with_them(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        lead = await moved(stores, job, "lead")
        await suspended_on(stores, lead, children := children_of(lead, 2))
        first, second = (one.child.job for one in children)
        for child in (first, second):
            await suspended_for(stores, await claimed(stores, child), asking(child, 1))
        other = await submitted(stores, request_id="r2")
        await suspended_for(stores, await moved(stores, other, "lead"), asking(other, 1))
        inbox = Inbox(stores)
        assert {one.id for one in await inbox.approvals(job=job)} == {f"{first}:1", f"{second}:1"}
        assert [one.id for one in await inbox.approvals(job=first)] == [f"{first}:1"]
        assert len(await inbox.approvals()) == 3
        await answered(stores, f"{second}:1")
        found = await inbox.approvals(job=job, waiting=False)
        assert [(one.id, one.status) for one in found] == [(f"{first}:1", "waiting"), (f"{second}:1", "approved")]
        await stop_job(stores.jobs, job, "user")
        with pytest.raises(ApprovalGone):
            await answered(stores, f"{first}:1")
        await swept(stores)
        assert (await inbox.approval(f"{first}:1")).status == "void"
        assert {one.id for one in await inbox.approvals()} == {f"{other}:1"}
        with pytest.raises(InvalidRequest, match="which job's approvals"):
            await inbox.approvals(waiting=False)

    backend.run(scenario)


def test_a_decision_never_writes_beside_a_running_leg(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores)
        await answered(stores, f"{job}:1")
        leg = await claimed(stores, job)
        late = Decided(leg=1, id=f"{job}:1", call_id="c1", tool="bash", digest=asking(job, 1).digest, status="denied")
        assert await stores.jobs.decide(late) == "decided"
        await as_any(stores.client.hdel(keys.approvals(job), "1:end"))  # as if nobody had
        assert await stores.jobs.decide(late) == "gone"
        assert (await stores.jobs.job(job)).seq == leg.lease.seq

    backend.run(scenario)


def test_a_decision_that_the_server_has_forgotten_is_asked_for_again(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores)
        before = await remembered(stores)
        await answered(stores, f"{job}:1", by="anna")
        leg = await claimed(stores, job)
        await rewind(stores, before)
        assert await stores.jobs.renew([leg.lease], 30) == {job: "lost"}
        assert await status_of(stores, job) == "suspended"
        [view] = await Inbox(stores).approvals()
        assert (view.status, view.by) == ("waiting", "")
        await answered(stores, f"{job}:1", "denied", by="ben")
        assert await decisions_in(stores, job) == [("1", "denied", "ben")]
        await claimed(stores, job)

    backend.run(scenario)


@pytest.mark.parametrize("user", ["", "anna", "ben"])
def test_only_an_approver_whom_the_server_knows_may_answer(
    backend: Backend, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known(self: Stores) -> str:
        return user

    monkeypatch.setattr(Stores, "user", known)

    async def scenario(stores: Stores) -> None:
        job = await parked(stores, approvers=("ben", "carla"), rule="policy.toml: rule 3")
        if user == "ben":
            view = await answered(stores, f"{job}:1", by="whoever it says it is")
            assert (view.by, view.is_claimed) == ("ben", False)
            return
        why = (
            "'anna' may not answer .*: ben, carla may"
            if user
            else r"policy\.toml: rule 3 says who may .*nobody can tell"
        )
        with pytest.raises(NotAnApprover, match=why):
            await answered(stores, f"{job}:1", by="ben")
        assert await status_of(stores, job) == "suspended"

    backend.run(scenario)


def test_who_has_asked_for_the_job_is_no_approver_where_the_rule_wants_another(
    valkey: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["anna", "ben", "ben"])

    async def known(self: Stores) -> str:
        return next(names)

    monkeypatch.setattr(Stores, "user", known)

    async def scenario(stores: Stores) -> None:
        job = await parked(stores, separate=True)
        with pytest.raises(NotAnApprover, match="nobody can tell who that was"):  # it was submitted without a name
            await answered(stores, f"{job}:1")
        row = await as_any(stores.client.xrange(keys.journal(job), "1-0", "1-0"))
        text = row[0][1]["r"].replace('"prompt"', '"by":"ben","prompt"')
        await rewind_request(stores, job, text)
        with pytest.raises(NotAnApprover, match="'ben' has asked for job"):
            await answered(stores, f"{job}:1")
        await rewind_request(stores, job, text.replace('"ben"', '"anna"'))
        assert (await answered(stores, f"{job}:1")).by == "ben"

    valkey.run(scenario)


async def rewind_request(stores: Stores, job: str, text: str) -> None:
    """Let the journal begin with another request."""
    rows = await as_any(stores.client.xrange(keys.journal(job)))
    await stores.client.delete(keys.journal(job))
    for at, (row, fields) in enumerate(rows):
        await stores.client.xadd(keys.journal(job), {"t": fields["t"], "r": fields["r"] if at else text}, id=row)
    await stores.client.expire(keys.journal(job), 1000)


def signed(test: Callable[[Stores, Stores], Awaitable[None]]) -> Callable[[Stores], Awaitable[None]]:
    """A scenario on stores that sign, and on the same server without a key."""

    async def scenario(unsigned: Stores) -> None:
        signing = Signing({"k1": b"s" * 32})
        await test(Stores.on(unsigned.client, signing=signing), unsigned)

    return scenario


def test_a_signed_job_takes_signed_answers_only(backend: Backend) -> None:
    async def scenario(stores: Stores, unsigned: Stores) -> None:
        job = await parked(stores, 2, approvers=("anna",))
        with pytest.raises(NotPermitted, match="is signed, and this client has no key"):
            await answered(unsigned, f"{job}:1")
        await answered(stores, f"{job}:2")  # a name is believed of who has the key
        await answered(stores, f"{job}:1")
        entries = await stores.jobs.journal(job)
        assert all(entry.seal is not None for entry in entries)
        from ekiden.shared.stores.journal_signatures import head_of

        assert head_of(Signing({"k1": b"s" * 32}), job, entries)

    backend.run(signed(scenario))


def test_a_signed_approval_that_somebody_has_changed_is_not_shown(backend: Backend) -> None:
    async def scenario(stores: Stores, unsigned: Stores) -> None:
        job = await parked(stores)
        text = await as_any(unsigned.client.hget(keys.approvals(job), "1"))
        await as_any(unsigned.client.hset(keys.approvals(job), "1", text.replace("make test", "rm -rf /")))
        with pytest.raises(Forged, match="approval"):
            await Inbox(stores).approvals()

    backend.run(signed(scenario))


def test_what_was_changed_without_a_signature_is_not_what_was_asked(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await parked(stores)
        text = await as_any(stores.client.hget(keys.approvals(job), "1"))
        await as_any(stores.client.hset(keys.approvals(job), "1", text.replace("make test", "ls")))
        with pytest.raises(InvalidRequest, match="about another call"):
            await answered(stores, f"{job}:1")

    backend.run(scenario)


def test_500_that_wait_are_listed_in_two_questions_what_expires_first_in_front_and_hold_no_worker(
    valkey: Backend,
) -> None:
    async def scenario(stores: Stores) -> None:
        job = await submitted(stores)
        leg = await moved(stores, job, "lead")
        await suspended_for(stores, leg, *(asking(job, n, timeout_s=3000.0 - n) for n in range(1, 501)))
        await as_any(stores.client.config_resetstat())
        found = await Inbox(stores).approvals()
        calls = {name: told["calls"] for name, told in (await stores.client.info("commandstats")).items()}
        assert (calls["cmdstat_zrange"], calls["cmdstat_hmget"]) == (1, 500), "one of these, in one pipeline"
        assert [int(one.id.rpartition(":")[2]) for one in found] == list(range(500, 0, -1))
        assert await as_any(stores.client.zcard(keys.LEASES)) == 0

    valkey.run(scenario)


def test_a_suspension_for_approvals_is_an_outcome_like_others() -> None:
    view = asking("abcdefghij234567.1", 1).view(asked_at_ms=5)
    assert Suspended("approval", 0.0, approvals=(view,)).approvals[0].asked_at_ms == 5
    assert ApprovalAsked.of(view) == asking("abcdefghij234567.1", 1)
