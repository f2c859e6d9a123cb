"""What a user has used up in an hour, a week or a month, by the server's time: read off what is counted by the day."""

import calendar
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from ekiden.shared.ids import session_of
from ekiden.shared.job_limits import PERIODS, Budget, Budgets, Period, UserBudget
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, reply, step_to, submitted
from tests.doubles.clocks import let_clock_be_set, set_clock

SESSION = "aaaaaaaaaaaaaaaa"
_EPOCH = date(1970, 1, 1)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    let_clock_be_set(monkeypatch)


def day_of(when: date) -> int:
    return (when - _EPOCH).days


async def now_is(stores: Stores, when: datetime) -> None:
    await set_clock(stores, round(when.replace(tzinfo=UTC).timestamp() - time.time()))


async def has_used(stores: Stores, when: date, tokens: int, user: str = "ann") -> None:
    """Let a user have used so many tokens on a day in all, each for a millionth of a dollar."""
    key = keys.usage(str(day_of(when)))
    await as_any(stores.client.hset(key, keys.usage_of(user), f"1 {tokens - 1} 1 {tokens} 0"))
    await stores.client.expire(key, 1_000)


async def spent(stores: Stores, per: Period, user: str = "ann") -> int:
    await as_any(stores.client.hset(keys.session(SESSION), "user", user))
    await stores.client.expire(keys.session(SESSION), 1_000)
    found = await stores.usage.spent(SESSION, None if per == "day" else PERIODS[per])
    assert found["user_tokens"] == found["user_micro"]
    return found["user_tokens"]


def test_weeks_begin_on_monday_months_on_their_first_and_what_was_before_counts_no_more(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for number in range(40):  # until Wednesday, 2026-03-11
            await has_used(stores, date(2026, 1, 31) + timedelta(days=number), 10)
        for when, week, month in [
            (datetime(2026, 2, 28, 23, 30), 60, 280),
            (datetime(2026, 3, 1, 0, 30), 70, 10),
            (datetime(2026, 3, 2, 0, 30), 10, 20),
            (datetime(2026, 3, 11, 12, 30), 30, 110),
            (datetime(2026, 3, 31, 12, 30), 0, 110),
            (datetime(2026, 4, 1, 12, 30), 0, 0),
        ]:
            await now_is(stores, when)
            for _ in range(2):
                assert (await spent(stores, "week"), await spent(stores, "month")) == (week, month), when

    backend.run(scenario)


def test_what_is_used_today_is_seen_at_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await now_is(stores, datetime(2026, 3, 11, 12, 30))
        await has_used(stores, date(2026, 3, 10), 100)
        assert await spent(stores, "week") == 100
        await has_used(stores, date(2026, 3, 11), 7)
        assert [await spent(stores, per) for per in ("day", "week", "month")] == [7, 107, 107]
        assert await spent(stores, "month", "bob") == 0

    backend.run(scenario)


def test_an_hour_counts_from_when_it_is_first_looked_at(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        today = date(2026, 3, 11)
        await has_used(stores, today, 50)
        await now_is(stores, datetime(2026, 3, 11, 12, 10))
        assert await spent(stores, "hour") == 0
        await has_used(stores, today, 80)
        await now_is(stores, datetime(2026, 3, 11, 12, 50))
        assert await spent(stores, "hour") == 30
        await now_is(stores, datetime(2026, 3, 11, 13, 10))
        assert (await spent(stores, "hour"), await spent(stores, "day")) == (0, 80)
        await now_is(stores, datetime(2026, 3, 12, 0, 10))
        assert await spent(stores, "hour") == 0
        await has_used(stores, date(2026, 3, 12), 5)
        assert await spent(stores, "hour") == 5

    backend.run(scenario)


def test_what_a_job_records_counts_for_the_hour_though_nobody_has_looked_at_that_yet(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        hours = iter(range(10, 24))

        async def next_hour() -> None:
            await now_is(stores, datetime(2026, 3, 11, next(hours), 1))

        async def used_this_hour() -> int:
            return (await stores.usage.spent(session_of(job), PERIODS["hour"]))["user_tokens"]

        await has_used(stores, date(2026, 3, 11), 50)
        await next_hour()
        job = await submitted(stores)
        await as_any(stores.client.hset(keys.session(session_of(job)), "user", "ann"))
        dispatcher = await claimed(stores, job)
        budgets = Budgets(UserBudget(max_tokens=10**6, per="hour"), Budget())
        route = step_to(dispatcher, "solo", budgets=budgets)
        route["records"] = [reply(leg=0, tokens=7), *route["records"]]
        assert await stores.jobs.transfer(dispatcher.lease, "t", **route) == ("ok", "")
        assert await used_this_hour() == 7, "what routing asked"
        lease = (await claimed(stores, job)).lease
        for tokens in (100, 20):
            await next_hour()
            lease.seq = (
                await stores.jobs.append(lease, f"{tokens}", [reply(tokens=tokens)], used_ms=1, is_progress=True)
            ).seq
            assert await used_this_hour() == tokens
        await next_hour()
        assert await stores.jobs.finish(lease, "f", [reply(tokens=3), done()], ()) == ("ok", "")
        assert await used_this_hour() == 3

    backend.run(scenario)


@pytest.mark.parametrize("per", ["week", "month"])
def test_a_clock_that_was_ahead_for_a_while_neither_adds_nor_forgets_anything(backend: Backend, per: Period) -> None:
    async def scenario(stores: Stores) -> None:
        async def spent_on(day: int) -> int:
            await now_is(stores, datetime(2026, 3, day, 10, 0))
            return await spent(stores, per)

        for day, tokens in ((10, 20), (11, 100)):
            await has_used(stores, date(2026, 3, day), tokens)
        assert [await spent_on(day) for day in (11, 12, 13, 11)] == [120] * 4
        await has_used(stores, date(2026, 3, 11), 1_000)
        assert [await spent_on(day) for day in (11, 12, 13)] == [1_020] * 3

    backend.run(scenario)


def test_each_month_begins_where_the_calendar_says(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        for year in (2026, 2028, 2100):
            for month in range(1, 13):
                for day in (1, calendar.monthrange(year, month)[1]):
                    await now_is(stores, datetime(year, month, day, 12, 30))
                    await spent(stores, "month", f"{year}-{month}-{day}")
                first = keys.budget(f"{PERIODS['month']}:{day_of(date(year, month, 1))}")
                assert await as_any(stores.client.hlen(first)) == 2, (year, month)
                assert 0 < await stores.client.ttl(first) <= 2 * PERIODS["month"]

    backend.run(scenario)


def test_who_is_forgotten_does_not_begin_a_week_or_a_month_anew(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await now_is(stores, datetime(2026, 3, 11, 12, 30))
        for day, tokens in ((10, 100), (2, 20)):
            await has_used(stores, date(2026, 3, day), tokens)
        assert [await spent(stores, per, "bob") for per in ("week", "month")] == [0, 0], "somebody has such a budget"
        await stores.forgetting.forget("ann")
        assert keys.usage_of("ann") not in await as_any(stores.client.hkeys(keys.usage(str(day_of(date(2026, 3, 10))))))
        for when in (datetime(2026, 3, 11, 12, 30), datetime(2026, 3, 13, 12, 30)):
            await now_is(stores, when)
            assert [await spent(stores, per) for per in ("week", "month")] == [100, 120]

    backend.run(scenario)


def test_users_that_find_a_full_period_get_nothing_for_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await now_is(stores, datetime(2026, 3, 11, 12, 30))
        hours = int(datetime(2026, 3, 11, 12, tzinfo=UTC).timestamp()) // 3_600
        for period in (f"3600:{hours}", f"{PERIODS['month']}:{day_of(date(2026, 3, 1))}"):
            many: dict[Any, Any] = {f"user\0{number}": "0 0 0" for number in range(keys.MAX_USAGE_FIELDS)}
            await as_any(stores.client.hset(keys.budget(period), mapping=many))
            await stores.client.expire(keys.budget(period), 1_000)
        await has_used(stores, date(2026, 3, 10), 100)
        await has_used(stores, date(2026, 3, 11), 7)
        for _ in range(2):
            assert (await spent(stores, "hour"), await spent(stores, "month")) == (7, 107)

    backend.run(scenario)
