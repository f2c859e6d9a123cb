"""A fork begins in one step, once however often it is asked for, and is a job like any other."""

import asyncio
from typing import Any

import pytest

from ekiden.dispatcher.forking.client_part import Forking
from ekiden.dispatcher.journal.live_pieces import LivePieces
from ekiden.shared.composition import LateHooks
from ekiden.shared.errors import Forged, InvalidRequest
from ekiden.shared.messages import Message, ToolCall, ToolResult
from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Forked, ModelReplied, ToolFinished, ToolStarted
from ekiden.shared.relay.leg import Leg, journal_of
from ekiden.shared.relay.message import queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.job_reader import LARGEST_INLINE
from ekiden.shared.stores.journal_signatures import head_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import LivePiece
from tests.conftest import Backend
from tests.contract.relay_world import claimed, reply
from tests.contract.test_signing import SIGNING, routed, run_leg, signed
from tests.scenarios.relay import team
from tests.unit.relay.legs import take


class Forker(Forking):
    """The part of a client that forks, on a connection that is there."""

    def __init__(self, stores: Stores) -> None:
        self._stores, self._hooks = stores, LateHooks("tests")


async def look(leg: Leg) -> Outcome:
    """Take a turn whose tool keeps a file, and whose words are too many for the journal; then hand over."""
    parts = (ToolCall(id="c", name="look"),)
    await leg.record(reply("x" * LARGEST_INLINE, leg.number), is_progress=True)
    message = Message(role="model", parts=parts)
    await leg.record(ModelReplied(leg=leg.number, turn=2, message=message), is_progress=True)
    await leg.record(ToolStarted(leg=leg.number, call_id="c", name="look"))
    await leg.record(ToolFinished(leg=leg.number, result=ToolResult(call_id="c", name="look", content="seen")))
    return Transfer(leg.context.advance("b", "because"), definition="")


async def origin(stores: Stores) -> tuple[str, int]:
    """A job whose next leg is agent b's, and the step behind which that begins."""
    job = await routed(stores)
    _, manifest, definitions = team({"name": "a"}, {"name": "b"}, {"name": "c"}).to_store()
    await stores.catalogs.add("cat", manifest, definitions)
    assert await run_leg(stores, queue_for("a"), look) == "ok"
    return job, (await Forker(stores).fork_points(job))[-1].seq


async def forks_of(stores: Stores, job: str) -> list[str]:
    return [one.id for one in await stores.jobs.jobs(100) if one.id != job]


def test_a_fork_runs_to_its_end_and_leaves_the_job_as_it_was(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, at = await origin(stores)
        before = await journal_of(stores.jobs, job), await stores.jobs.job(job)
        ref = await stores.artifacts.keep(job, "a long result")
        forked = await Forker(stores).fork(job, at)
        assert (await journal_of(stores.jobs, job), await stores.jobs.job(job)) == before
        await take(stores, queue_for("b"))  # the job's own message
        assert await run_leg(stores, queue_for("b"), Answer("done")) == "ok"
        entries, view = await journal_of(stores.jobs, forked.job), await stores.jobs.job(forked.job)
        assert (view.status, view.result, view.depth) == ("done", "done", 1)
        assert isinstance(entries[at].record, Forked)
        shared = [entry.record for entry in entries[1:at]]
        assert [one.type for one in shared] == [entry.record.type for entry in before[0][1:]]
        assert shared[4] == before[0][5].record  # too large for the journal
        await as_any(stores.client.delete(keys.blobs(job)))
        assert await stores.artifacts.read(forked.job, str(ref)) == "a long result"
        assert isinstance((await journal_of(stores.jobs, forked.job))[5].record, ModelReplied)

    backend.run(scenario)


def test_what_a_fork_writes_is_seen_while_it_is_written(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, at = await origin(stores)
        forked = await Forker(stores).fork(job, at)
        lease = (await claimed(stores, forked.job)).lease
        pieces = LivePieces()
        for entry in await journal_of(stores.jobs, forked.job):
            pieces.close(entry.record)
        assert pieces.is_open(LivePiece(leg=lease.leg, turn=1, fence=lease.fence, text="a word"))

    backend.run(scenario)


def test_the_same_request_id_is_the_same_fork_and_another_fork_under_it_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, at = await origin(stores)
        client = Forker(stores)
        both = await asyncio.gather(*(client.fork(job, at, request_id="again") for _ in range(2)))
        assert {one.job for one in both} == set(await forks_of(stores, job))
        assert sorted(one.is_new for one in both) == [False, True]
        for other in ({"prompt": "else"}, {"agent": "c"}, {"state": {"x": 1}}):
            with pytest.raises(InvalidRequest, match="request id 'again'"):
                await client.fork(job, at, request_id="again", **other)

    backend.run(scenario)


def test_two_forks_at_once_are_two_jobs_in_sessions_of_their_own(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, at = await origin(stores)
        client = Forker(stores)
        one, other = await asyncio.gather(client.fork(job, at), client.fork(job, at))
        assert one.job.partition(".")[0] != other.job.partition(".")[0] != job.partition(".")[0]
        assert [(await stores.jobs.job(name)).status for name in (one.job, other.job)] == ["queued", "queued"]

    backend.run(scenario)


def test_a_fork_may_do_what_the_job_may_and_its_checks_go_on_from_the_jobs(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, at = await origin(stores)
        raw: Any = stores.client
        await raw.hset(keys.job(job), mapping={"max_turns": 7, "spent_turns": 5, "max_user_tokens": 100})
        await raw.hset(keys.session(job.partition(".")[0]), mapping={"untrusted": 1, "user": "ada"})
        forked = await Forker(stores).fork(job, at)
        assert (await stores.jobs.job(forked.job)).limits["max_turns"][1:3] == (0, 7)
        fields = await raw.hgetall(keys.job(forked.job))
        assert fields["max_user_tokens"] == "100"
        visits = {name: value for name, value in fields.items() if name.startswith("visits:")}
        assert visits == {"visits:a": "1", "visits:b": "1"}
        assert (await claimed(stores, forked.job)).is_untrusted
        assert (await stores.sessions.session(forked.job.partition(".")[0])).user == "ada"

    backend.run(scenario)


def test_where_jobs_are_signed_a_fork_is_signed_and_one_of_a_forged_job_is_refused(backend: Backend) -> None:
    async def scenario(plain: Stores) -> None:
        stores = signed(plain)
        job, at = await origin(stores)
        forked = await Forker(stores).fork(job, at, state={"x": 1})
        head_of(SIGNING, forked.job, await journal_of(stores.jobs, forked.job))
        edited = team({"name": "a"}, {"name": "b"})
        await Forker(stores).fork(job, at, catalog=edited)
        assert await stores.catalogs.manifest(edited.digest) == edited.digests
        await take(stores, queue_for("b"))  # the job's own message
        for _ in range(2):
            assert await run_leg(stores, queue_for("b"), Answer("done")) == "ok"
        raw: Any = stores.client
        rows = await raw.xrange(keys.journal(job))
        await raw.delete(keys.journal(job))
        for row, fields in rows:
            await raw.xadd(keys.journal(job), {**fields, "r": fields["r"].replace("seen", "unseen")}, row)
        await raw.expire(keys.journal(job), 60)
        with pytest.raises(Forged):
            await Forker(stores).fork(job, at)
        unsigned = await Forker(plain).fork(job, at)
        await run_leg(stores, queue_for("b"), Answer("done"))
        assert (await stores.jobs.job(unsigned.job)).reason == "FORGED"

    backend.run(scenario)
