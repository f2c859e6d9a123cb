"""Requests that are pushed by who may not run scripts, and served by a dispatcher: with the rights of their roles."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from ekiden.dispatcher import intake
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.intake import serve_intake
from ekiden.shared.errors import (
    EkidenError,
    InvalidRequest,
    NotConfirmed,
    NotPermitted,
    NotTaken,
    SessionBusy,
    UnknownAgent,
    UnknownJob,
)
from ekiden.shared.records import JobRequested
from ekiden.shared.signing import Signing
from ekiden.shared.stores import intake as store
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores, open_stores
from tests.integration.roles import RoleServer, server_with_roles

TICKET = "0" * 32
REQUEST = {"prompt": "fix it", "request_id": "r", "deadline_s": 60}


@dataclass(frozen=True)
class World:
    """A submitter's client, and the stores of a pool and of whoever runs the server."""

    client: Client
    pool: Stores
    root: Stores

    async def push(self, text: str | bytes) -> None:
        """Push as a submitter whose program is its own."""
        await self.root.client.lpush(keys.INTAKE, text)

    async def pushed(self, **fields: Any) -> None:
        await self.push(json.dumps({"ticket": TICKET, "request": REQUEST | fields}))

    async def served(self) -> None:
        """Serve all that there is."""
        while await self.root.client.llen(keys.INTAKE) or await self.root.client.zcard(keys.INTAKE_TAKEN):
            await serve_intake(self.pool, 0)

    async def reasons(self) -> list[str]:
        return [letter.reason for letter in await self.root.dead_letters.all()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleServer]:
    with server_with_roles(tmp_path_factory.mktemp("roles")) as one:
        yield one


@pytest.fixture
def run(server: RoleServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    monkeypatch.setattr(intake, "WAIT_S", 0.1)

    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        asyncio.run(asyncio.wait_for(_in_a_world(server, scenario), 60))

    return run


Run = Callable[[Callable[[World], Awaitable[None]]], None]


async def _in_a_world(server: RoleServer, scenario: Callable[[World], Awaitable[None]]) -> None:
    pool, root = open_stores(server.url("pool")), open_stores(server.root_url)
    await root.client.flushall()
    try:
        async with Client(server.url("submitter")) as client:
            await scenario(World(client, pool, root))
    finally:
        await pool.close()
        await root.close()


@asynccontextmanager
async def dispatcher(stores: Stores, wait_replicas: int = 0) -> AsyncIterator[None]:
    """Serve the intake meanwhile, as a dispatcher's beat does."""

    async def serve() -> None:
        while True:
            await serve_intake(stores, wait_replicas)

    task = asyncio.create_task(serve())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_submitters_request_becomes_the_job_that_its_client_would_have_created(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool):
            job = await world.client.submit(
                "fix\nit", strategy="rule", cwd="/srv/x", user="ann", policy="sticky", state={"k": [1]}, deadline_s=90
            )
            later = await world.client.submit("and more", session=job.partition(".")[0])
        [entry] = await world.client.entries(job)
        request = entry.record
        assert isinstance(request, JobRequested)
        assert (request.prompt, request.strategy, request.cwd) == ("fix\nit", "rule", "/srv/x")
        assert request.state == {"k": [1]}
        assert request.traceparent
        session = await world.client.session(job.partition(".")[0])
        assert (session.user, session.policy, session.jobs) == ("ann", "sticky", 2)
        assert (await world.client.job(later)).status == "waiting"
        assert await world.reasons() == []

    run(scenario)


def test_the_same_request_id_is_the_same_job_however_often_it_is_pushed(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool):
            once, again = [await world.client.submit("fix it", request_id="mine") for _ in range(2)]
        assert once == again
        await world.pushed(request_id="mine")
        await world.pushed(request_id="mine")
        await world.served()
        assert [view.id for view in await world.client.jobs()] == [once]

    run(scenario)


def test_the_same_request_id_with_another_prompt_is_refused_and_the_first_counts(run: Run, server: RoleServer) -> None:
    async def scenario(world: World) -> None:
        other = "1" * 32
        await world.pushed(prompt="the victim's")
        await world.push(json.dumps({"ticket": other, "request": REQUEST | {"prompt": "the attacker's"}}))
        await world.served()
        assert [view.summary for view in await world.client.jobs()] == ["the victim's"]
        refused = json.loads(await world.pool.intake.reply(other) or "")
        assert (refused["error"], "was asked for something else" in refused["message"]) == ("InvalidRequest", True)
        async with Client(server.url("admin")) as client:
            job = await client.submit("the victim's", request_id="r", deadline_s=9)
            assert [view.id for view in await client.jobs()] == [job]
            others: list[dict[str, Any]] = [{"agent": "x"}, {"cwd": "/srv"}, {"state": {"k": 1}}, {"strategy": "llm"}]
            for other_request in others:
                with pytest.raises(InvalidRequest, match="was asked for something else"):
                    await client.submit("the victim's", request_id="r", **other_request)

    run(scenario)


def test_the_first_answer_to_a_ticket_stands(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.pushed(prompt="the victim's", request_id="1")
        await world.push(json.dumps({"ticket": TICKET, "n": 1}))
        for number in range(2, 19):
            await world.pushed(prompt="the attacker's", request_id=f"{number}")
        await world.served()
        job = json.loads(await world.pool.intake.reply(TICKET) or "")["job"]
        assert (await world.client.job(job)).summary == "the victim's"
        assert all(TICKET not in letter.text for letter in await world.root.dead_letters.all())

    run(scenario)


def test_a_batch_waits_for_replicas_once_and_never_for_more_than_the_dispatcher_wants(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    real = store.RedisIntakeStore.replicas

    async def replicas(self: store.RedisIntakeStore, wanted: int) -> int:
        waited.append(wanted)
        return await real(self, wanted)

    monkeypatch.setattr(store.RedisIntakeStore, "replicas", replicas)

    async def scenario(world: World) -> None:
        for own in (0, 1):
            for number in range(20):
                request = REQUEST | {"request_id": f"{own} {number}"}
                ticket = f"{own}{number:031x}"
                await world.push(json.dumps({"ticket": ticket, "request": request, "wait_replicas": 10}))
            await world.root.client.config_resetstat()
            await serve_intake(world.pool, own)
            stats = await world.root.client.info("commandstats")
            assert stats["cmdstat_wait"]["calls"] == 1
            reply = json.loads(await world.pool.intake.reply(f"{own}{0:031x}") or "")
            assert (reply["error"], bool(reply["job"])) == ("NotConfirmed", True)
            assert "10 replica(s) were to have it" in reply["message"]
            assert f"had waited for {own}" in reply["message"]
        assert waited == [0, 1]
        assert len(await world.client.jobs(100)) == 40

    run(scenario)


def test_what_is_far_too_long_is_cut_before_anything_is_done_with_it_and_ends_a_batch(run: Run) -> None:
    async def scenario(world: World) -> None:
        for number in range(3):
            await world.push(b"x" * store.MAX_BYTES + b"%d" % number * store.BYTES_AT_ONCE)
        await world.pushed()
        [first] = await world.pool.intake.take()
        assert first.is_too_long
        kept = await world.root.client.hvals(keys.INTAKE_TEXTS)
        assert [len(text) for text in kept] == [store.MAX_BYTES + 1]
        assert await world.root.client.llen(keys.INTAKE) == 3
        await world.pool.intake.settle(first, None)
        await world.served()
        assert len(await world.client.jobs()) == 1
        assert len(await world.reasons()) == 2

    run(scenario)


def test_many_requests_are_served_once_each_by_two_dispatchers(run: Run) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool), dispatcher(world.pool):
            jobs = await asyncio.gather(*(world.client.submit(f"{number}") for number in range(60)))
        assert len(set(jobs)) == 60
        assert {view.id for view in await world.client.jobs(100)} == set(jobs)

    run(scenario)


def test_what_a_dispatcher_took_when_it_died_is_served_by_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SERVE_S", 0.2)

    async def scenario(world: World) -> None:
        await world.pushed()
        assert len(await world.pool.intake.take()) == 1  # and there it dies
        assert await world.root.client.llen(keys.INTAKE) == 0
        await world.served()
        assert len(await world.client.jobs()) == 1
        assert await world.root.client.exists(keys.INTAKE_TEXTS) == 0
        assert json.loads(await world.pool.intake.reply(TICKET) or "")["is_new"]

    run(scenario)


def test_a_request_that_was_served_when_its_dispatcher_died_is_answered_and_not_done_twice(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SERVE_S", 0.2)

    async def scenario(world: World) -> None:
        async def dies(*_: object) -> None:
            raise asyncio.CancelledError

        await world.pushed()
        with monkeypatch.context() as patched:
            patched.setattr(type(world.pool.intake), "settle", dies)
            with suppress(asyncio.CancelledError):
                await serve_intake(world.pool, 0)
        [job] = await world.client.jobs()
        await world.served()
        assert [view.id for view in await world.client.jobs()] == [job.id]
        assert json.loads(await world.pool.intake.reply(TICKET) or "")["job"] == job.id

    run(scenario)


def test_refusals_reach_who_asked_as_what_they_are(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.root.catalogs.publish("d", {"debugger": "x"}, {"x": "{}"}, replaces=None)
        async with dispatcher(world.pool):
            job = await world.client.submit("fix it", agent="debugger")
            session = job.partition(".")[0]
            with pytest.raises(SessionBusy, match=job):
                await world.client.submit("more", session=session, on_busy="reject")
            with pytest.raises(UnknownAgent, match="did you mean 'debugger'"):
                await world.client.submit("more", agent="debuger")
            with pytest.raises(UnknownJob):
                await world.client.submit("more", session="a" * 16)
            with pytest.raises(NotPermitted, match="needs the role admin"):
                await world.client.submit("more", session=session, on_busy="interrupt")
            with pytest.raises(InvalidRequest, match="more than 1,048,576 bytes"):
                await world.client.submit("x" * 1_100_000)
        assert len(await world.client.jobs()) == 1
        assert await world.reasons() == []  # each was a request

    run(scenario)


def test_the_dispatcher_tells_too_what_only_it_finds(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.root.catalogs.publish("d", {"debugger": "x"}, {"x": "{}"}, replaces=None)
        await world.pushed(agent="debuger")
        await world.served()
        reply = json.loads(await world.pool.intake.reply(TICKET) or "")
        assert reply["error"] == "UnknownAgent"
        await world.root.client.delete(keys.reply(TICKET))  # the first answer to a ticket stands
        await world.pushed(session="{evil}:job:x")
        await world.served()
        assert json.loads(await world.pool.intake.reply(TICKET) or "")["error"] == "UnknownJob"
        assert [key async for key in world.root.client.scan_iter("*evil*")] == []

    run(scenario)


DEEP = json.loads("[" * 150 + "]" * 150)
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "Invalid JSON"),
    "no_text": (b"\xff\xfe\x00", "Invalid JSON"),
    "no_object": ("[1]", "request cannot be read"),
    "deep": ('{"ticket":' + "[" * 100_000, "Invalid JSON"),
    "deep_state": (json.dumps({"ticket": TICKET, "request": REQUEST | {"state": {"x": DEEP}}}), "levels of"),
    "long": ("x" * (store.MAX_BYTES + 1), "longer than 1,048,576 bytes"),
    "without_ticket": (json.dumps({"request": REQUEST}), "ticket"),
    "ticket_is_a_key": (json.dumps({"ticket": "../../x", "request": REQUEST}), "ticket"),
    "unknown_field": (json.dumps({"ticket": TICKET, "request": REQUEST, "role": "admin"}), "role"),
    "unknown_field_of_the_request": (json.dumps({"ticket": TICKET, "request": REQUEST | {"catalog": "x"}}), "catalog"),
    "empty_prompt": (json.dumps({"ticket": TICKET, "request": REQUEST | {"prompt": " \n"}}), "the prompt is empty"),
    "lines_in_a_name": (json.dumps({"ticket": TICKET, "request": REQUEST | {"agent": "a\nb"}}), "a line break"),
    "no_number": (json.dumps({"ticket": TICKET, "request": REQUEST | {"deadline_s": float("nan")}}), "deadline_s"),
    "for_ever": (json.dumps({"ticket": TICKET, "request": REQUEST | {"deadline_s": 1e300}}), "deadline_s"),
    "over_at_once": (json.dumps({"ticket": TICKET, "request": REQUEST | {"deadline_s": -1}}), "deadline_s"),
    "long_id": (json.dumps({"ticket": TICKET, "request": REQUEST | {"request_id": "i" * 501}}), "request_id"),
    "interrupts": (json.dumps({"ticket": TICKET, "request": REQUEST | {"on_busy": "interrupt"}}), "may not cancel"),
    "approves": (json.dumps({"ticket": TICKET, "request": REQUEST | {"approve": ["low"]}}), "may not approve calls"),
    "waits_for_ever": (json.dumps({"ticket": TICKET, "request": REQUEST, "wait_replicas": 10**9}), "wait_replicas"),
    "half_a_character": (json.dumps({"ticket": TICKET, "request": REQUEST | {"prompt": "\ud800"}}), "Invalid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_request_is_kept_as_a_dead_letter_and_holds_up_nobody(run: Run, kind: str) -> None:
    raw, reason = HOSTILE[kind]

    async def scenario(world: World) -> None:
        await world.push(raw)
        async with dispatcher(world.pool):
            await world.client.submit("honest")
        [told] = await world.reasons()
        assert told.startswith("no request: ")
        assert reason in told
        assert [view.summary for view in await world.client.jobs()] == ["honest"]
        for key in (keys.INTAKE, keys.INTAKE_TAKEN, keys.INTAKE_TEXTS):
            assert await world.root.client.exists(key) == 0, key

    run(scenario)


def test_a_flood_of_rubbish_leaves_the_honest_their_turn_and_keeps_no_more_than_its_share(run: Run) -> None:
    async def scenario(world: World) -> None:
        for number in range(300):
            await world.push(f"rubbish {number}")
        async with dispatcher(world.pool):
            await world.client.submit("honest")
        assert len(await world.client.jobs()) == 1
        assert len(await world.reasons()) == 300

    run(scenario)


def test_a_newer_clients_request_is_answered_though_it_cannot_be_read(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.pushed(invented_later=1)
        await world.served()
        reply = json.loads(await world.pool.intake.reply(TICKET) or "")
        assert reply["error"] == "InvalidRequest"
        assert "the dispatcher does not take the request" in reply["message"]

    run(scenario)


def test_without_a_dispatcher_the_request_waits_and_its_client_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ANSWER_S", 0.1)

    async def scenario(world: World) -> None:
        with pytest.raises(NotTaken, match="request id 'mine' again is the same job"):
            await world.client.submit("fix it", request_id="mine")
        [queue] = await world.client.queues()
        assert (queue.name, queue.waiting, queue.pools) == (keys.INTAKE, 1, ())
        await world.served()
        assert keys.INTAKE not in [queue.name for queue in await world.client.queues()]
        [job] = await world.client.jobs()
        async with dispatcher(world.pool):
            assert await world.client.submit("fix it", request_id="mine") == job.id

    run(scenario)


def test_what_the_replicas_do_not_have_is_told_with_its_job(run: Run, server: RoleServer) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool, wait_replicas=1):
            with pytest.raises(NotConfirmed) as caught:
                await world.client.submit("fix it", request_id="mine")
        [job] = await world.client.jobs()
        assert (caught.value.job, caught.value.request_id) == (job.id, "mine")
        async with dispatcher(world.pool), Client(server.url("submitter"), wait_replicas=1) as client:
            with pytest.raises(NotConfirmed, match="1 replica"):
                await client.submit("fix it")

    run(scenario)


def test_something_else_under_the_intakes_name_is_put_aside(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.root.client.set(keys.INTAKE, "a text")
        await serve_intake(world.pool, 0)
        async with dispatcher(world.pool):
            await world.client.submit("fix it")
        [reason] = await world.reasons()
        assert reason.startswith("a string stood where the list of messages should be")

    run(scenario)


@pytest.mark.parametrize("role", ["submitter", "observer"])
def test_who_may_not_is_told_which_role_may(run: Run, server: RoleServer, role: str) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool):
            job = await world.client.submit("fix it")
        async with Client(server.url(role)) as client:
            session = job.partition(".")[0]
            attempts: list[Callable[[], Awaitable[object]]] = [
                lambda: client.cancel(job),
                lambda: client.retry(job),
                lambda: client.set_policy(session, "sticky"),
                client.unfinished,
            ]
            if role == "observer":
                attempts.append(lambda: client.submit("mine"))
            for attempt in attempts:
                with pytest.raises(NotPermitted, match="`ekiden acl` prints what each may do"):
                    await attempt()
        assert (await world.client.job(job)).status == "queued"
        assert NotPermitted.exit_code == 7

    run(scenario)


def test_an_admin_submits_without_a_dispatcher_cancels_and_retries(run: Run, server: RoleServer) -> None:
    async def scenario(world: World) -> None:
        async with Client(server.url("admin")) as client:
            job = await client.submit("fix it")
            assert await client.cancel(job) == "ok"
            with pytest.raises(EkidenError, match="only a job that failed or died"):
                await client.retry(job)
            assert [one.id for one in await client.unfinished()] == []

    run(scenario)


SIGNING = Signing({"k1": b"s" * 32})


def test_a_dispatcher_with_keys_serves_signed_requests_and_answers_no_others(
    run: Run, server: RoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        ours = open_stores(server.url("pool"), signing=SIGNING)
        async with dispatcher(ours), Client(server.url("submitter"), signing=SIGNING) as client:
            job = await client.submit("fix it")
            monkeypatch.setattr(intake, "ANSWER_S", 1.0)
            with pytest.raises(NotTaken, match=r"signed \(ekiden.signing_key\), others are not answered"):
                await world.client.submit("mine")
        await world.pushed()
        await serve_intake(ours, 0)
        assert await world.pool.intake.reply(TICKET) is None
        await ours.close()
        assert [view.id for view in await world.client.jobs()] == [job]
        [entry] = await world.client.entries(job)
        assert entry.seal is not None
        assert await world.reasons() == ["no request: the request is not signed"] * 2

    run(scenario)


def test_a_signed_request_that_was_changed_on_its_way_is_refused(run: Run, server: RoleServer) -> None:
    async def scenario(world: World) -> None:
        text = SIGNING.sign("request", (), json.dumps({"ticket": TICKET, "request": REQUEST}))
        await world.push(text.replace("fix it", "rm it"))
        ours = open_stores(server.url("pool"), signing=SIGNING)
        await serve_intake(ours, 0)
        await ours.close()
        [reason] = await world.reasons()
        assert "the signature of the request is wrong" in reason
        assert await world.client.jobs() == []

    run(scenario)


def test_who_may_only_push_requests_may_approve_nothing_in_advance_and_is_no_known_author(
    run: Run, server: RoleServer
) -> None:
    async def scenario(world: World) -> None:
        async with dispatcher(world.pool):
            with pytest.raises(NotPermitted, match="to approve calls in advance is to answer approvals"):
                await world.client.submit("go", approve=["low"])
            pushed = await world.client.submit("go", user="anna", when_asked="deny")
            async with Client(server.url("admin")) as admin:
                own = await admin.submit("go", user="anna", approve=["safe", "low"])
        asked = [(await world.pool.jobs.journal(job, limit=1))[0].record for job in (pushed, own)]
        told = [(one.by, one.is_claimed, one.approve, one.when_asked) for one in asked if isinstance(one, JobRequested)]
        assert told == [("anna", True, (), "deny"), ("ekiden-admin", False, ("safe", "low"), "park")]

    run(scenario)
