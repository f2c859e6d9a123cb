"""Limits of models that all workers keep together: no minute sees more than the limit, and everybody gets a share."""

import math
from collections import Counter
from typing import Any

import pytest

from ekiden.shared.ids import session_of
from ekiden.shared.outcomes import Suspended
from ekiden.shared.stores import keys
from ekiden.shared.stores.model_limits import LimitState, ModelLimit, Reserved, Wait
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, step_to, submitted

LIMIT = ModelLimit("k:m", "m", rpm=100)
JOB = "aaaaaaaaaaaaaaaa.1"
OTHER = "bbbbbbbbbbbbbbbb.1"


class Clock:
    """Relay time, which a test moves on."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.passed_s = 0.0

    async def move(self, seconds: float) -> None:
        self.passed_s += seconds
        await as_any(self._stores.client.hset(keys.CLOCK, "offset_ms", round(self.passed_s * 1000)))


async def take(
    stores: Stores, limit: ModelLimit = LIMIT, job: str = JOB, tokens: int = 10, fence: str = ""
) -> Reserved | Wait:
    return await stores.model_limits.take(limit, job, tokens, queues=False, fence=fence)


async def call(stores: Stores, limit: ModelLimit = LIMIT, tokens: int = 10) -> int | None:
    """Make a call and end it, if there is room; return the second of it."""
    taken = await take(stores, limit, tokens=tokens)
    if isinstance(taken, Wait):
        return None
    await stores.model_limits.settle(taken, tokens)
    return int(taken.held.split()[0])


async def calls_in(
    stores: Stores, clock: Clock, seconds: int, limit: ModelLimit = LIMIT, tokens: int = 10
) -> list[int]:
    """Call as often as there is room, twice a second; return the second of each call, from the first on."""
    made = []
    for _ in range(seconds * 2):
        while (second := await call(stores, limit, tokens)) is not None:
            made.append(second)
        await clock.move(0.5)
    return [second - made[0] for second in made]


def most_in_a_minute(made: list[int]) -> int:
    return max(sum(start <= at < start + 60 for at in made) for start in made)


def test_no_minute_has_more_calls_than_the_limit_and_none_is_wasted(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        made = await calls_in(stores, Clock(stores), 240)
        assert most_in_a_minute(made) <= 100
        assert sum(60 <= at < 240 for at in made) >= 0.95 * 100 * 3

    backend.run(scenario)


def test_no_minute_has_more_tokens_than_the_limit(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        made = await calls_in(stores, Clock(stores), 240, ModelLimit("k:m", "m", tpm=10_000), 500)
        assert most_in_a_minute(made) * 500 <= 10_000
        assert sum(60 <= at < 240 for at in made) * 500 >= 0.95 * 10_000 * 3

    backend.run(scenario)


def test_after_a_burst_calls_come_evenly(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        made = Counter(await calls_in(stores, clock, 150))
        assert made[0] + made[1] >= 10, "a tenth at once"
        assert max(made[second] for second in range(65, 150)) <= 4

    backend.run(scenario)


def test_what_was_used_counts_and_not_what_was_reserved(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit = ModelLimit("k:m", "m", tpm=10_000)
        taken = await take(stores, limit, tokens=900)
        assert isinstance(taken, Reserved)
        assert (await stores.model_limits.state(limit)).tokens == 900
        await stores.model_limits.settle(taken, 1_700)
        assert await stores.model_limits.state(limit) == LimitState(1, 1_700, 0, 0, 0.0)
        later = await take(stores, limit, tokens=900)
        assert isinstance(later, Wait)
        assert later.part == "tpm"

    backend.run(scenario)


def test_what_calls_take_beyond_their_estimate_is_learned(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit, clock = ModelLimit("k:m", "m", tpm=1_000_000), Clock(stores)
        for _ in range(40):
            taken = await take(stores, limit, tokens=1_000)
            assert isinstance(taken, Reserved)
            await stores.model_limits.settle(taken, 1_400)
            await clock.move(1)
        taken = await take(stores, limit, tokens=1_000)
        assert isinstance(taken, Reserved)
        assert 1_350 < int(taken.held.split()[1]) < 1_405

    backend.run(scenario)


def test_a_call_that_failed_is_given_back(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit = ModelLimit("k:m", "m", rpm=1, tpm=100, concurrent=1)
        for _ in range(3):
            taken = await take(stores, limit, tokens=90)
            assert isinstance(taken, Reserved)
            await stores.model_limits.give_back(taken)
        assert await stores.model_limits.state(limit) == LimitState(0, 0, 0, 0, 0.0)

    backend.run(scenario)


def test_a_provider_that_wants_to_be_left_alone_is_left_alone_by_all(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        taken = await take(stores)
        assert isinstance(taken, Reserved)
        await stores.model_limits.give_back(taken, leave_alone_s=60.0, refused=True)
        wait = await take(stores, job="bbbbbbbbbbbbbbbb.1")
        assert isinstance(wait, Wait)
        assert (wait.part, 50 < wait.wait_s <= 60) == ("blocked", True)
        await clock.move(60.5)
        assert isinstance(await take(stores), Reserved)

    backend.run(scenario)


def test_one_that_does_not_say_for_how_long_is_left_alone_for_longer_each_time(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock, waits = Clock(stores), []
        for _ in range(8):
            taken = await take(stores)
            assert isinstance(taken, Reserved)
            await stores.model_limits.give_back(taken, refused=True)
            waits.append(math.ceil((await stores.model_limits.state(LIMIT)).blocked_s))
            await clock.move(waits[-1] + 1)
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        await call(stores)
        taken = await take(stores)
        assert isinstance(taken, Reserved)
        await stores.model_limits.give_back(taken, refused=True)
        assert math.ceil((await stores.model_limits.state(LIMIT)).blocked_s) == 1

    backend.run(scenario)


def test_two_keys_do_not_share(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        mine, theirs = (ModelLimit(f"{key}:m", "m", rpm=1) for key in "ab")
        assert isinstance(await take(stores, mine), Reserved)
        assert isinstance(await take(stores, mine), Wait)
        assert isinstance(await take(stores, theirs), Reserved)

    backend.run(scenario)


def test_a_dead_workers_slot_is_free_when_its_lease_has_ended(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit, clock = ModelLimit("k:m", "m", concurrent=1), Clock(stores)
        await claims(stores, 1)
        assert isinstance(await take(stores, limit, fence="1.w"), Reserved)
        await clock.move(100)
        wait = await take(stores, limit, job=OTHER)
        assert isinstance(wait, Wait)
        assert wait.part == "concurrent"
        await as_any(stores.client.zrem(keys.LEASES, JOB))
        await clock.move(6)
        assert isinstance(await take(stores, limit, job=OTHER), Reserved)

    backend.run(scenario)


def test_a_dispatchers_slot_is_free_when_its_claim_is_over_however_long_the_jobs_next_legs_take(
    backend: Backend,
) -> None:
    async def scenario(stores: Stores) -> None:
        limit, clock = ModelLimit("k:m", "m", concurrent=1), Clock(stores)
        job = await submitted(stores)
        routing = await claimed(stores, job, owner="d#1", lease_s=10**6)
        assert isinstance(await take(stores, limit, job, fence=routing.lease.fence), Reserved)
        await clock.move(100)
        assert isinstance(await take(stores, limit, OTHER), Wait), "it may still be asking"
        assert await stores.jobs.transfer(routing.lease, "t", **step_to(routing, "solo")) == ("ok", "")
        await claimed(stores, job, owner="w#1", lease_s=10**6)
        await clock.move(6)
        assert isinstance(await take(stores, limit, OTHER), Reserved)

    backend.run(scenario)


def test_a_worker_that_has_lost_its_job_takes_nothing_from_who_goes_on_with_it(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit = ModelLimit("k:m", "m", concurrent=1)
        await claims(stores, 2)
        here = await take(stores, limit, fence="2.w")
        for queues in (False, True):
            lost = await stores.model_limits.take(limit, JOB, 10, queues=queues, fence="1.w")
            assert isinstance(lost, Wait)
        await stores.model_limits.leave([limit], JOB, fence="1.w")
        assert isinstance(here, Reserved)
        assert await stores.model_limits.state(limit) == LimitState(1, 10, 1, 0, 0.0)
        await stores.model_limits.settle(here, 10)
        assert (await stores.model_limits.state(limit)).running == 0

    backend.run(scenario)


def test_a_job_that_another_program_has_written_over_holds_no_slot(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit, clock = ModelLimit("k:m", "m", concurrent=1), Clock(stores)
        await claims(stores, 1)
        assert isinstance(await take(stores, limit, fence="1.w"), Reserved)
        await stores.client.set(keys.job(JOB), "no job", ex=60)
        await clock.move(6)
        assert isinstance(await take(stores, limit, OTHER), Reserved)

    backend.run(scenario)


async def claims(stores: Stores, count: int) -> None:
    """Let the job run under the last of so many claims, which is renewed all the time."""
    await as_any(stores.client.hset(keys.job(JOB), mapping={"status": "running", "fence": count, "owner": "w"}))
    await stores.client.expire(keys.job(JOB), 1_000)
    await as_any(stores.client.zadd(keys.LEASES, {JOB: 10**15}))


async def waiting(stores: Stores, user: str, count: int, limit: ModelLimit) -> list[str]:
    """Let jobs of a user wait for the limit, as a worker does: a place first, then the suspension."""
    jobs = [f"{user}{number:015d}.1" for number in range(count)]
    for job in jobs:
        await owned(stores, job, user)
        await used_up(stores, limit)  # also what has come free meanwhile
        wait = await stores.model_limits.take(limit, job, 10, queues=True)
        assert isinstance(wait, Wait)
        await suspended(stores, job)
    return jobs


async def owned(stores: Stores, job: str, user: str) -> None:
    """Make a running job of a user."""
    session = keys.session(session_of(job))
    await as_any(stores.client.hset(session, "user", user))
    await as_any(stores.client.hset(keys.job(job), mapping={"status": "running"}))
    for key in (session, keys.job(job)):
        await stores.client.expire(key, 1_000)


async def suspended(stores: Stores, job: str) -> None:
    outcome = Suspended("limit", 60.0)
    await as_any(stores.client.hset(keys.job(job), mapping={"status": "suspended", "cause": outcome.cause}))


async def used_up(stores: Stores, limit: ModelLimit) -> None:
    while await call(stores, limit) is not None:
        pass


def test_users_take_turns_and_each_ones_jobs_come_in_their_order(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await used_up(stores, LIMIT)
        many = await waiting(stores, "a", 50, LIMIT)
        few = await waiting(stores, "b", 2, LIMIT)
        woken: list[str] = []
        while len(woken) < 52:
            await clock.move(1)
            woken += await stores.model_limits.wake()
        assert [job for job in woken if job in many] == many
        assert [job for job in woken if job in few] == few
        assert woken.index(few[1]) <= 4, "nobody with two jobs is behind another's fifty"
        assert await as_any(stores.client.smembers(keys.LIMITED)) == set()

    backend.run(scenario)


def test_whoever_comes_later_stands_behind_those_who_wait(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await used_up(stores, LIMIT)
        [first] = await waiting(stores, "a", 1, LIMIT)
        await clock.move(30)
        wait = await take(stores)
        assert isinstance(wait, Wait)
        assert wait.others
        assert await stores.model_limits.wake() == [first]
        taken = await stores.model_limits.take(LIMIT, first, 10, queues=False)
        assert isinstance(taken, Reserved), "it was woken for this call"

    backend.run(scenario)


def test_a_job_that_ended_while_it_waited_holds_up_nobody(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await used_up(stores, LIMIT)
        first, second, third = await waiting(stores, "a", 3, LIMIT)
        await as_any(stores.client.hset(keys.job(first), "status", "cancelled"))
        await as_any(stores.client.delete(keys.job(second)))
        await clock.move(2)
        assert await stores.model_limits.wake() == [third]

    backend.run(scenario)


def test_a_limit_that_another_program_has_written_over_keeps_nobody_from_another_one(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock, names = Clock(stores), [keys.limit(name) for name in ("a:hash", "b:waiting", "c:job")]
        await used_up(stores, LIMIT)
        [first] = await waiting(stores, "a", 1, LIMIT)
        await as_any(stores.client.sadd(keys.LIMITED, *names))
        await as_any(stores.client.set(names[0], "no hash", ex=60))
        await as_any(stores.client.set(f"{names[1]}:waiting", "no sorted set", ex=60))
        await as_any(stores.client.zadd(f"{names[2]}:waiting", {"a.1": 1}))
        await as_any(stores.client.expire(f"{names[2]}:waiting", 60))
        await as_any(stores.client.set("ekiden:{a}:job:a.1", "no job", ex=60))
        await clock.move(1)
        assert await stores.model_limits.wake() == [first]
        assert await as_any(stores.client.smembers(keys.LIMITED)) == set()
        letters = await as_any(stores.client.xrange(keys.DEAD_LETTERS))
        assert sorted(name for name in names for _, one in letters if name in one["reason"]) == sorted(names)

    backend.run(scenario)


def test_a_job_between_its_place_and_its_pause_keeps_the_place(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await used_up(stores, LIMIT)
        first, second = await waiting(stores, "a", 2, LIMIT)
        await as_any(stores.client.hset(keys.job(first), "status", "running"))
        await clock.move(1)
        assert await stores.model_limits.wake() == [second]
        await suspended(stores, first)
        await clock.move(1)
        assert await stores.model_limits.wake() == [first]

    backend.run(scenario)


def test_a_call_counts_from_when_it_is_made_and_not_at_all_where_a_woken_job_never_comes(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock, limit = Clock(stores), ModelLimit("k:m", "m", rpm=2)
        await used_up(stores, limit)
        came, never = await waiting(stores, "a", 2, limit)
        await clock.move(61)
        assert await stores.model_limits.wake() == [came, never]
        await clock.move(30)
        taken = await stores.model_limits.take(limit, came, 10, queues=False)
        assert isinstance(taken, Reserved)
        await stores.model_limits.settle(taken, 10)
        await clock.move(40)
        assert (await stores.model_limits.state(limit)).calls == 1, "of 40 s ago"
        assert await call(stores, limit) is not None
        assert await call(stores, limit) is None

    backend.run(scenario)


def test_what_another_program_writes_over_the_index_keeps_nobody_from_waiting(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await stores.client.set(keys.LIMITED, "a text")
        assert await stores.model_limits.wake() == []
        await stores.client.set(keys.LIMITED, "a text")
        await used_up(stores, LIMIT)
        jobs = await waiting(stores, "a", 1, LIMIT)
        await clock.move(1)
        assert await stores.model_limits.wake() == jobs

    backend.run(scenario)


@pytest.mark.parametrize("limit", [ModelLimit("k:m", "m", rpm=60), ModelLimit("k:m", "m", tpm=600)])
def test_a_wait_is_told_by_how_many_come_first(backend: Backend, limit: ModelLimit) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        assert await calls_in(stores, clock, 120, limit)
        await used_up(stores, limit)
        await waiting(stores, "a", 19, limit)
        await owned(stores, JOB, "a")
        wait = await stores.model_limits.take(limit, JOB, 10, queues=True)
        assert isinstance(wait, Wait)
        assert 15 < wait.wait_s <= 60

    backend.run(scenario)


@pytest.mark.parametrize("used", [10**12, -(10**12)])
def test_what_a_server_says_that_a_call_used_costs_the_others_a_minute_at_most_and_gives_nothing_back(
    backend: Backend, used: int
) -> None:
    async def scenario(stores: Stores) -> None:
        clock, limit = Clock(stores), ModelLimit("k:m", "m", tpm=10_000)
        taken = await take(stores, limit, tokens=100)
        assert isinstance(taken, Reserved)
        await stores.model_limits.settle(taken, used)
        assert (await stores.model_limits.state(limit)).tokens >= 0
        await clock.move(62)
        taken = await take(stores, limit, tokens=100)
        assert isinstance(taken, Reserved)
        assert taken.size <= 100 + 10_000 / 8, "one call is no reason to reserve all for each of the next ones"
        made = await calls_in(stores, clock, 120, limit, 100)
        assert most_in_a_minute(made) * 100 <= 10_000
        assert sum(60 <= at < 120 for at in made) >= 50

    backend.run(scenario)


def test_places_of_jobs_that_do_not_come_hold_up_nobody_however_many_there_are(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock(stores)
        await used_up(stores, LIMIT)
        *others, last = await waiting(stores, "a", 1_101, LIMIT)
        for number, job in enumerate(others):
            gone: dict[Any, Any] = {"status": "suspended", "cause": "approval"} if number % 2 else {"status": "running"}
            await as_any(stores.client.hset(keys.job(job), mapping=gone))
        await clock.move(1)
        assert await stores.model_limits.wake() == [last]
        assert (await stores.model_limits.state(LIMIT)).waiting == 550, "those on their way keep their places"
        await suspended(stores, others[0])
        await clock.move(1)
        assert await stores.model_limits.wake() == [others[0]]

    backend.run(scenario)


def test_a_job_that_another_model_serves_leaves_nothing_behind(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock, limits = Clock(stores), [ModelLimit(f"k:{name}", name, rpm=1, tpm=50, concurrent=1) for name in "abc"]
        waits, woken, died = limits
        for limit in (waits, woken):
            await used_up(stores, limit)
        [job] = await waiting(stores, "a", 1, woken)
        await clock.move(62)
        assert await stores.model_limits.wake() == [job]
        await used_up(stores, waits)
        assert isinstance(await stores.model_limits.take(waits, job, 10, queues=True), Wait)
        assert isinstance(await take(stores, died, job), Reserved)
        await stores.model_limits.leave(limits, job)
        assert [await stores.model_limits.state(limit) for limit in limits] == [
            LimitState(1, 10, 0, 0, 0.0),
            LimitState(0, 0, 0, 0, 0.0),
            LimitState(1, 10, 0, 0, 0.0),  # the worker that died may have called
        ]
        assert isinstance(await take(stores, woken), Reserved), "at once: it was not used"
        assert await as_any(stores.client.zrange(f"{keys.limit('k:a')}:waiting", 0, -1)) == []

    backend.run(scenario)


def test_a_call_that_a_job_was_woken_for_is_kept_a_minute_also_where_the_job_does_something_else(
    backend: Backend,
) -> None:
    async def scenario(stores: Stores) -> None:
        clock, limit = Clock(stores), ModelLimit("k:m", "m", rpm=1, concurrent=1)
        await used_up(stores, limit)
        [job] = await waiting(stores, "a", 1, limit)
        await as_any(stores.client.zadd(keys.LEASES, {job: 10**15}))  # it is renewed all the time
        await clock.move(62)
        assert await stores.model_limits.wake() == [job]
        await clock.move(59)
        assert isinstance(await take(stores, limit), Wait)
        await clock.move(2)
        assert isinstance(await take(stores, limit), Reserved)

    backend.run(scenario)


def test_the_slot_of_a_worker_that_died_is_not_in_the_way_of_who_goes_on_with_its_job(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        limit = ModelLimit("k:m", "m", rpm=10, concurrent=1)
        await as_any(stores.client.zadd(keys.LEASES, {JOB: 10**15}))
        first, beside, again = [
            await stores.model_limits.take(limit, JOB, 10, queues=False, fence=fence)
            for fence in ("1.dead", "1.dead", "2.here")
        ]
        assert isinstance(first, Reserved)
        assert isinstance(beside, Wait), "one that calls twice at a time takes two"
        assert isinstance(again, Reserved)
        assert await stores.model_limits.state(limit) == LimitState(2, 20, 1, 0, 0.0)
        await stores.model_limits.settle(first, 10)  # it was only slow
        assert (await stores.model_limits.state(limit)).running == 1
        await stores.model_limits.settle(again, 10)
        assert await stores.model_limits.state(limit) == LimitState(2, 20, 0, 0, 0.0)

    backend.run(scenario)
