"""The contracts of the session and live stores, on fakeredis and on a real server."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import AmbiguousId, InvalidRequest, UnknownJob
from ekiden.shared.handoff import first_context
from ekiden.shared.ids import session_of
from ekiden.shared.llm.base import Delta
from ekiden.shared.messages import Message, TextPart, user_message
from ekiden.shared.records import JobRequested
from ekiden.shared.relay.live import FLUSH_S, Live
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.live import MAX_PIECES
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.submissions import Submission
from ekiden.shared.stores.views import LivePiece
from tests.conftest import Backend
from tests.contract.relay_world import done, moved, submission


async def begun(
    stores: Stores, prompt: str, *, session: str | None = None, agent: str | None = None, user: str = "ada"
) -> str:
    """Submit ``prompt`` and return the job."""
    job = await stores.jobs.reserve(session, f"{session} {prompt}", user)
    context = first_context(job)
    box = outbox(job, 0, DISPATCH_QUEUE, context)
    await stores.jobs.submit(Submission(job, JobRequested(prompt=prompt, agent=agent), context, box, 60.0))
    return job


async def shown(stores: Stores) -> None:
    """Wait until followers see something of the answer in the making."""
    async with asyncio.timeout(60):
        while not (await stores.live.read(JOB, "0", wait_s=0.01))[1]:  # noqa: ASYNC110 - fakeredis does not wait
            await asyncio.sleep(0.01)


async def answered(stores: Stores, job: str, prompt: str, answer: str, agent: str = "debugger") -> None:
    """Let ``agent`` end the job with ``answer``, as a worker would."""
    leg = await moved(stores, job, agent)
    said = [user_message(prompt), Message(role="model", parts=(TextPart(text=answer),), model=agent)]
    verdict = await stores.jobs.finish(leg.lease, "end", [done(answer)], [one.model_dump_json() for one in said])
    assert verdict[0] == "ok"


async def talked(stores: Stores, prompt: str, answer: str, **where: str) -> str:
    """Submit and answer; return the session."""
    job = await begun(stores, prompt, **where)
    await answered(stores, job, prompt, answer)
    return session_of(job)


def test_a_session_remembers_what_was_said_in_its_jobs_in_order_and_by_whom(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "name it 🐛", "It is Otto.")
        await talked(stores, "and now?", "Still Otto.", session=session)
        said = await stores.sessions.messages(session)
        assert [(one.agent, one.message.text) for one in said] == [
            ("", "name it 🐛"),
            ("debugger", "It is Otto."),
            ("", "and now?"),
            ("debugger", "Still Otto."),
        ]
        assert [one.job for one in said] == [f"{session}.1"] * 2 + [f"{session}.2"] * 2
        assert said[0].at_ms > 1_600_000_000_000

    backend.run(scenario)


def test_a_session_keeps_its_policy_and_who_got_its_first_message(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = session_of(first := await stores.jobs.reserve(None, "r", "ada", "entry"))
        second = await stores.jobs.reserve(session, "r2")
        for job, agent in ((first, "debugger"), (second, "reviewer")):
            await stores.jobs.submit(submission(job))
            leg = await moved(stores, job, agent)
            await stores.jobs.finish(leg.lease, "end", [done()], [])
        view = await stores.sessions.session(session)
        assert (view.policy, view.first_agent) == ("entry", "debugger")
        await stores.jobs.reserve(session, "again", "ada", "sticky")
        assert (await stores.sessions.session(session)).policy == "entry", "that of new sessions only"
        await stores.sessions.set_policy(session, "sticky")
        assert [one.policy for one in await stores.sessions.sessions()] == ["sticky"]
        with pytest.raises(UnknownJob):
            await stores.sessions.set_policy("0" * 16, "route")

    backend.run(scenario)


def test_a_session_of_an_earlier_version_is_routed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = session_of(await begun(stores, "x"))
        await as_any(stores.client.hdel(keys.session(session), "policy"))
        view = await stores.sessions.session(session)
        assert (view.policy, view.first_agent) == ("route", "")

    backend.run(scenario)


def test_the_newest_messages_are_kept_when_there_are_more_than_asked_for(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "one", "1")
        await talked(stores, "two", "2", session=session)
        assert [one.message.text for one in await stores.sessions.messages(session, limit=3)] == ["1", "two", "2"]
        assert len(await stores.sessions.messages(session, limit=None)) == 4

    backend.run(scenario)


def test_what_a_version_before_wrote_of_a_session_comes_first_and_counts(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "three", "3")
        older = user_message("one"), Message(role="model", parts=(TextPart(text="1"),), model="debugger")
        for message in older:
            fields: dict[Any, Any] = {"job": f"{session}.9", "m": message.model_dump_json()}
            await stores.client.xadd(keys.older_messages(session), fields)
        await stores.client.expire(keys.older_messages(session), 1_000)
        said = await stores.sessions.messages(session)
        assert [(one.agent, one.message.text) for one in said[:2]] == [("", "one"), ("debugger", "1")]
        assert [one.message.text for one in said[2:]] == ["three", "3"]
        assert [one.message.text for one in await stores.sessions.messages(session, limit=3)] == ["1", "three", "3"]
        assert said[0].at_ms > 1_600_000_000_000
        await begun(stores, "four", session=session)
        assert await stores.client.ttl(keys.older_messages(session)) >= keys.SESSION_TTL_S
        await answered(stores, f"{session}.2", "four", "4")
        assert (await stores.sessions.clear(session)).messages == 6
        assert await stores.sessions.messages(session) == []

    backend.run(scenario)


def test_a_job_is_not_told_its_own_messages(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "one", "1")
        await talked(stores, "two", "2", session=session)
        said = await stores.sessions.messages(session, before_job=f"{session}.2")
        assert [one.message.text for one in said] == ["one", "1"]

    backend.run(scenario)


def test_a_session_tells_who_began_it_and_what_runs_and_waits_in_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first = await begun(stores, "the first request", agent="debugger")
        session = session_of(first)
        second = await begun(stores, "the second", session=session)
        view = await stores.sessions.session(session)
        assert (view.title, view.entry, view.user, view.jobs) == ("the first request", "debugger", "ada", 2)
        assert (view.active, view.waiting) == (first, 1)
        assert (await stores.jobs.job(second)).status == "waiting"
        await answered(stores, first, "the first request", "done")
        assert (await stores.sessions.session(session)).active == second

    backend.run(scenario)


def test_sessions_are_listed_by_last_use_and_found_by_user_and_entry(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        routed = await talked(stores, "a", "1")
        named = await talked(stores, "b", "2", agent="debugger")
        others = await talked(stores, "c", "3", user="grace")
        await talked(stores, "d", "4", session=routed)  # used last now
        found = stores.sessions.sessions
        assert {view.id for view in await found()} == {routed, named, others}
        assert [view.id for view in await found(1)] == [routed]
        assert [view.id for view in await found(user="grace")] == [others]
        assert [view.id for view in await found(user="ada", entry="debugger")] == [named]
        assert [view.id for view in await found(user="ada", entry="")] == [routed]
        assert await found(user="nobody") == []

    backend.run(scenario)


def test_a_session_is_found_by_the_beginning_of_its_id_and_by_a_job_of_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "a", "1")
        for given in (session, session[:6], f"{session}.1"):
            assert await stores.sessions.resolve(given) == session
        for given in ("", "0", f"{session}x"):
            with pytest.raises(UnknownJob, match="ekiden sessions list"):
                await stores.sessions.resolve(given)

    backend.run(scenario)


def test_a_beginning_that_two_sessions_share_is_ambiguous_however_many_jobs_the_first_has(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        ids = [f"aaaa{letter * 12}" for letter in "bc"]
        jobs = {f"{ids[0]}.{number}": 0 for number in range(1, 300)} | {f"{ids[1]}.1": 0}
        await as_any(stores.client.zadd(keys.JOB_IDS, jobs))
        with pytest.raises(AmbiguousId, match=f"{ids[0]} and {ids[1]}"):
            await stores.sessions.resolve("aaaa")
        assert await stores.sessions.resolve("aaaab") == ids[0]

    backend.run(scenario)


def test_a_message_says_whom_the_user_named_and_who_had_control(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "a", "1")
        await talked(stores, "b", "2", agent="debugger", session=session)
        said = await stores.sessions.messages(session)
        assert [(one.to, one.agents) for one in said] == 2 * [("", ("debugger",))] + 2 * [("debugger", ("debugger",))]

    backend.run(scenario)


def test_clearing_forgets_the_messages_and_variables_and_keeps_the_jobs(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "a", "1")
        await as_any(stores.client.hset(keys.state(session), "colour", '"red"'))
        assert await stores.sessions.clear(session) == (2, 1)
        assert await stores.sessions.messages(session) == []
        assert await stores.sessions.state(session) == {}
        assert await stores.sessions.clear(session) == (0, 0)
        assert (await stores.jobs.job(f"{session}.1")).status == "done"

    backend.run(scenario)


def test_a_session_at_work_is_not_cleared(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        session = await talked(stores, "a", "1")
        job = await begun(stores, "b", session=session)
        with pytest.raises(InvalidRequest, match=f"job '{job}' of session '{session}' still runs"):
            await stores.sessions.clear(session)
        assert len(await stores.sessions.messages(session)) == 2

    backend.run(scenario)


def test_a_session_that_does_not_exist_is_refused(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        with pytest.raises(UnknownJob, match="ekiden sessions list"):
            await stores.sessions.session("a" * 16)

    backend.run(scenario)


JOB = "aaaaaaaaaaaaaaaa.1"


def piece(text: str, turn: int = 1) -> LivePiece:
    """A piece of an answer."""
    return LivePiece(leg=1, fence="2", turn=turn, text=text)


def test_live_pieces_are_read_from_the_start_and_from_where_one_left_off(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.live.append(JOB, [piece("a"), piece("b")])
        place, pieces = await stores.live.read(JOB, "0", wait_s=0.01)
        assert pieces == [piece("a"), piece("b")]
        assert await stores.live.read(JOB, place, wait_s=0.01) == (place, [])
        await stores.live.append(JOB, [piece("c", 2)])
        assert (await stores.live.read(JOB, place, wait_s=0.01))[1] == [piece("c", 2)]

    backend.run(scenario)


def test_a_live_stream_is_short_lived_and_bounded(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.live.append(JOB, [piece("x")] * (MAX_PIECES + 500))
        assert await as_any(stores.client.xlen(keys.live(JOB))) <= MAX_PIECES + 100
        assert 0 < await as_any(stores.client.ttl(keys.live(JOB))) <= keys.LIVE_TTL_S

    backend.run(scenario)


def test_a_reader_waits_for_the_first_piece(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        reading = asyncio.create_task(stores.live.read(JOB, "0", wait_s=4.0))
        await asyncio.sleep(0)
        await stores.live.append(JOB, [piece("at last")])
        assert (await reading)[1] == [piece("at last")]

    valkey.run(scenario)


def test_what_a_model_writes_reaches_the_stream_in_order_with_few_pieces(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        live = Live(stores.live, Lease(JOB, 1, "7"))
        live.begin(1)
        for text in ("one ", "two ", "three"):
            live.write(Delta(text))
        live.write(Delta("hm", thought=True))
        live.write(Delta("", restart=True))
        live.write(Delta("again"))
        await shown(stores)
        live.write(Delta(" and again"))
        await live.finish()
        _, pieces = await stores.live.read(JOB, "0", wait_s=0.01)
        assert [(one.turn, one.text, one.thought, one.restart) for one in pieces] == [
            (1, "one two three", False, False),
            (1, "hm", True, False),
            (1, "again", False, True),
            (1, " and again", False, False),
        ]
        assert {one.fence for one in pieces} == {"7"}

    backend.run(scenario)


def test_the_stream_of_a_long_answer_holds_it_from_its_beginning(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.shared.relay.live.FLUSH_S", 0.001)
    monkeypatch.setattr("ekiden.shared.relay.live.SLOWER_FROM", 5)

    async def scenario(stores: Stores) -> None:
        live = Live(stores.live, Lease(JOB, 1, "7"))
        live.begin(1)
        words = [f"{n} " for n in range(200)]
        for word in words:
            live.write(Delta(word))
            await asyncio.sleep(0.001)
        await live.finish()
        _, pieces = await stores.live.read(JOB, "0", wait_s=0.01)
        assert "".join(one.text for one in pieces) == "".join(words)
        assert len(pieces) < 100, "fewer the longer it gets"

    backend.run(scenario)


def test_an_answer_that_is_whole_at_once_is_in_its_record_alone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        live = Live(stores.live, Lease(JOB, 1, "7"))
        live.begin(1)
        live.write(Delta("slow"))
        await shown(stores)
        await live.finish()
        live.begin(2)
        live.write(Delta("quick"))
        await live.finish()
        await asyncio.sleep(0)
        assert [one.text for one in (await stores.live.read(JOB, "0", wait_s=2 * FLUSH_S))[1]] == ["slow"]

    backend.run(scenario)


def test_a_server_that_is_away_costs_the_model_nothing() -> None:
    async def scenario() -> None:
        import redis.asyncio

        from ekiden.shared.stores.live import RedisLiveStore

        client = redis.asyncio.Redis(unix_socket_path="/nowhere/socket", decode_responses=True)
        live = Live(RedisLiveStore(client), Lease(JOB, 1, "7"))
        live.write(Delta("lost"))
        await asyncio.sleep(2 * FLUSH_S)  # until it is on its way
        await live.finish()
        await client.aclose()

    asyncio.run(scenario())


def test_nothing_that_goes_wrong_with_the_live_stream_costs_the_model_anything() -> None:
    class Broken:
        """A store that fails in a way that nobody thought of."""

        async def append(self, job: str, pieces: list[LivePiece]) -> None:
            raise RecursionError("too deep")

    async def scenario(store: Any, text: Any) -> list[Any]:
        with capture_logs() as logs:
            live = Live(store, Lease(JOB, 1, "7"))
            for _ in range(3):
                live.write(Delta(text))
                await asyncio.sleep(2 * FLUSH_S)  # until it is on its way
                await live.finish()
        return [entry["event"] for entry in logs]

    assert asyncio.run(scenario(Broken(), "lost")) == ["live_pieces_lost"]
    assert asyncio.run(scenario(Broken(), object())) == ["live_pieces_lost"]
