"""Models whose limit leaves no room, where an agent may ask another one: nothing is left behind of a wait for them."""

import itertools
from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from ekiden.shared.errors import ModelUnavailable, StoreUnavailable
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.ids import session_of
from ekiden.shared.llm.admission import AdmittedModel
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import user_message
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.model_limits import limit_for
from ekiden.shared.records import FellBack, LegSuspended
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores import keys
from ekiden.shared.stores.model_limits import ModelLimit, Reserved, Wait
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.test_model_limits import move
from tests.unit.workers.world import said

FIRST, SECOND = "scripted-a", "scripted-b"
ONE = ModelLimitValues(rpm=1)
_requests = itertools.count(1)


class Answering:
    """Models that say who they are, as far as nothing is wrong with them."""

    def __init__(self, **wrong: Exception) -> None:
        self.asked: list[str] = []
        self.wrong = wrong

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.asked.append(request.model)
        if request.model[-1] in self.wrong:
            raise self.wrong[request.model[-1]]
        return said(request.model).model_copy(update={"model": request.model})


class World:
    """An agent with two models, and the limits of these."""

    def __init__(
        self,
        stores: Stores,
        first: ModelLimitValues | None = ONE,
        second: ModelLimitValues | None = None,
        on: Sequence[FallbackCause] = ("limit", "unavailable"),
        **wrong: Exception,
    ) -> None:
        self.stores, self.model = stores, Answering(**wrong)
        self.limits = {name: said_ for name, said_ in ((FIRST, first), (SECOND, second)) if said_ is not None}
        both = {"name": "solo", "models": {"use": [FIRST, SECOND], "on": list(on)}}
        agents = both, {"name": "first", "model": FIRST}, {"name": "second", "model": SECOND}
        self.relay = Relay(stores, team(*agents), self.model, limits=self.limits)

    def limit(self, model: str) -> ModelLimit:
        limit = limit_for(model, self.limits, {})
        assert limit is not None
        return limit

    async def ask(self, agent: str = "solo", user: str = "ann") -> str:
        """Let a user ask, and run what can run; return the job."""
        job = await self.relay.submit(f"go {next(_requests)}", agent=agent)
        await as_any(self.stores.client.hset(keys.session(session_of(job)), "user", user))
        await self.relay.drain()
        return job

    async def story(self, job: str) -> Story:
        return await self.relay.story(job)

    async def ended(self, *jobs: str) -> list[str | None]:
        return [(await self.story(job)).view.result for job in jobs]

    async def left_at(self, model: str) -> tuple[int, int, int]:
        """How many calls count there, how many are under way or reserved, and who waits."""
        state = await self.stores.model_limits.state(self.limit(model))
        return state.calls, state.running, state.waiting

    async def later(self, seconds: int) -> None:
        await move(self.stores, seconds)
        await self.relay.drain()


def test_the_next_model_is_asked_where_a_limit_leaves_no_room_and_the_journal_says_so() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores)
        jobs = [await world.ask() for _ in range(3)]
        assert await world.ended(*jobs) == [FIRST, SECOND, SECOND]
        [passed] = (await world.story(jobs[1])).of(FellBack)
        assert (passed.model, passed.why, passed.to, passed.cost_usd) == (FIRST, "limit", SECOND, None)
        assert passed.text.startswith("scripted-a's limit of 1 call a minute, about ")
        assert await world.left_at(FIRST) == (1, 0, 0)

    on_server(scenario)


def test_a_leg_waits_for_its_first_model_where_the_agent_does_not_name_the_cause() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, on=("unavailable",))
        jobs = [await world.ask() for _ in range(2)]
        assert await world.ended(*jobs) == [FIRST, None]
        assert await world.left_at(FIRST) == (1, 0, 1)
        await world.later(61)
        assert await world.ended(*jobs) == [FIRST, FIRST]

    on_server(scenario)


async def waiting_for_the_second(world: World) -> str:
    """Return a job that waits: its first model has room in 61 s, the second one in 31 s."""
    await world.ask("second")
    await world.later(30)
    assert await world.ended(await world.ask()) == [FIRST]
    job = await world.ask()
    assert (await world.left_at(FIRST), await world.left_at(SECOND)) == ((1, 0, 0), (1, 0, 1))
    return job


def test_where_none_has_room_a_leg_waits_for_the_one_that_has_it_soonest() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, second=ONE)
        job = await waiting_for_the_second(world)
        [pause] = (await world.story(job)).of(LegSuspended)
        assert pause.cause == "limit"
        limits = [told.rpartition(", about ")[0] for told in pause.detail.split("; ")]
        assert limits == ["scripted-b's limit of 1 call a minute", "scripted-a's limit of 1 call a minute"]
        await world.later(32)
        story = await world.story(job)
        assert (story.view.result, len(story.of(LegSuspended))) == (SECOND, 1)

    on_server(scenario)


def test_what_a_leg_was_woken_for_is_there_for_others_where_its_first_model_has_room_by_then() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, second=ONE)
        job = await waiting_for_the_second(world)
        behind = await world.ask("second")
        await move(stores, 62)
        assert await world.left_at(SECOND) == (1, 1, 1), "it is reserved for the job that waited"
        await world.relay.drain()
        assert await world.ended(job, behind) == [FIRST, None]
        assert await world.left_at(SECOND) == (0, 0, 1)
        await world.later(1)
        assert await world.ended(behind) == [SECOND]

    on_server(scenario)


def test_a_worker_that_dies_between_its_place_and_its_pause_leaves_no_ghost() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores)
        _, behind = [await world.ask("first", "bob") for _ in range(2)]
        job = await world.relay.submit("go", agent="solo")
        await world.relay.step()
        await world.relay.lose(job, [])
        assert isinstance(await stores.model_limits.take(world.limit(FIRST), job, 10, queues=True), Wait)
        assert await world.left_at(FIRST) == (1, 0, 2)
        await world.relay.wake(job)
        await world.relay.drain()
        assert await world.ended(job, behind) == [SECOND, None]
        assert await world.left_at(FIRST) == (1, 0, 1)
        await world.later(61)
        assert await world.ended(behind) == [FIRST]

    on_server(scenario)


def test_a_request_that_no_minute_of_one_model_has_room_for_goes_to_the_next() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(tpm=10))
        job = await world.ask()
        assert await world.ended(job) == [SECOND]
        [passed] = (await world.story(job)).of(FellBack)
        assert (passed.why, "raise limits.models.scripted-a.tpm" in passed.text) == ("limit", True)

    on_server(scenario)


def test_whoever_falls_back_stands_behind_those_who_wait_for_that_model() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, second=ONE)
        bobs = [await world.ask("second", "bob") for _ in range(2)]
        anns = [await world.ask() for _ in range(2)]
        assert await world.ended(*bobs, *anns) == [SECOND, None, FIRST, None]
        await as_any(stores.client.hincrby(keys.CLOCK, "offset_ms", 62_000))
        late = await world.ask()
        assert await world.ended(late) == [None], "there is room, and others wait for it"
        await world.later(0)
        assert await world.ended(*bobs, *anns, late) == [SECOND, SECOND, FIRST, FIRST, None]

    on_server(scenario)


def test_a_model_that_is_away_does_not_keep_a_leg_from_waiting_for_the_other_ones_room() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, b=ModelUnavailable("b is away"))
        jobs = [await world.ask() for _ in range(2)]
        [pause] = (await world.story(jobs[1])).of(LegSuspended)
        assert (pause.cause, world.model.asked) == ("limit", [FIRST, SECOND])
        await world.later(61)
        assert await world.ended(*jobs) == [FIRST, FIRST]

    on_server(scenario)


@pytest.mark.parametrize(("leave_alone_s", "result"), [(20.0, None), (40.0, SECOND)])
def test_a_provider_that_wants_to_be_left_alone_for_long_is_not_available_to_whoever_asks_later_either(
    leave_alone_s: float, result: str | None
) -> None:
    async def scenario(stores: Stores) -> None:
        busy = ModelUnavailable("429", leave_alone_s, is_rate_limit=True)
        world = World(stores, ModelLimitValues(rpm=100), on=("unavailable",), a=busy)
        jobs = [await world.ask() for _ in range(2)]
        assert await world.ended(*jobs) == [SECOND, result]
        assert [one.why for one in (await world.story(jobs[1])).of(FellBack)] == ["unavailable"] * (result is not None)
        assert (world.model.asked.count(FIRST), await world.left_at(FIRST)) == (1, (0, 0, int(result is None)))

    on_server(scenario)


def test_a_limit_says_how_long_calls_hold_its_slots() -> None:
    async def scenario(stores: Stores) -> None:
        world = World(stores, ModelLimitValues(concurrent=2))
        limit = world.limit(FIRST)
        for number in range(2):
            taken = await stores.model_limits.take(limit, f"a.{number}", 1, queues=False)
            assert isinstance(taken, Reserved)
            await as_any(stores.client.hincrby(keys.CLOCK, "offset_ms", 20_000))
            await stores.model_limits.settle(taken, 5)
        for number in range(2):
            assert isinstance(await stores.model_limits.take(limit, f"a.{number}", 1, queues=False), Reserved)
        for others in range(3):
            wait = await stores.model_limits.take(limit, f"b.{others}", 1, queues=True)
            assert isinstance(wait, Wait)
            assert wait.wait_s == pytest.approx(10 * (1 + others), rel=0.1)

    on_server(scenario)


def test_a_call_whose_end_the_server_was_not_told_is_over_when_another_model_serves_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(stores: Stores) -> None:
        async def is_away(*_: object, **__: object) -> None:
            raise StoreUnavailable("no server")

        world, limits = World(stores, ModelLimitValues(concurrent=1)), stores.model_limits
        lease = (await claimed(stores, await world.relay.submit("go"))).lease
        model = ModelLimits(limits, world.limits, {}).under(lease, [FIRST, SECOND])(AdmittedModel(world.model))
        await model.reply(request(SECOND))
        for name, wrong in (("settle", {}), ("give_back", {"a": ModelUnavailable("503")})):
            world.model.wrong = dict(wrong)
            monkeypatch.setattr(limits, name, is_away)
            with pytest.raises(ModelUnavailable) if wrong else nullcontext():
                await model.reply(request(FIRST))
            assert (await world.left_at(FIRST))[1] == 1
            await model.reply(request(SECOND))
            assert (await world.left_at(FIRST))[1] == 0

    on_server(scenario)


def request(model: str) -> ModelRequest:
    return ModelRequest("solo", model, "", (user_message("go"),))
