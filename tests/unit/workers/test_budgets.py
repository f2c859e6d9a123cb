"""What a user may use up in a day, and a session in all: whoever has used it up gets nothing more, and is told when."""

import asyncio
import itertools
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from ekiden.dispatcher.cli.commands.usage import summed
from ekiden.shared.ids import session_of
from ekiden.shared.job_limits import PERIODS, Budget, Budgets, Period, Used, UserBudget, why_no_budget
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.messages import MOST_TOKENS, Usage
from ekiden.shared.records import LastTurn, LimitNear, ModelReplied, Routed
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.doubles.clocks import let_clock_be_set, set_clock
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, What, call, calls, said, tool_named

SOLO = {"name": "solo", "limits": {"max_turns": 50}}
NONE, ANY = Budget(), UserBudget()
_requests = itertools.count(1)


async def look(args: What, _: object) -> str:
    return "seen"


def using(reply: ModelReply, tokens: int, model: str = "test") -> ModelReply:
    usage = Usage(input_tokens=tokens - 10, output_tokens=10)
    return reply.model_copy(update={"usage": usage, "model": model})


LOOKS = tuple(using(calls(call(f"c{n}", "look", what=str(n))), 100) for n in range(30))


def world(stores: Stores, *replies: ModelReply, users: UserBudget = ANY, sessions: Budget = NONE) -> Relay:
    model = Replies({"solo": replies})
    prices = {"test": (1_000.0, 1_000.0)}
    tools = [tool_named("look", look, read_only=True)]
    return Relay(stores, team(SOLO), model, tools=tools, budgets=Budgets(users, sessions), prices=prices)


async def ask(relay: Relay, user: str, session: str | None = None) -> Story:
    """Let a user ask something, and run it to its end."""
    job = await relay.submit(f"go {next(_requests)}", agent="solo", session=session)
    await as_any(relay.stores.client.hset(keys.session(session_of(job)), "user", user))
    async with asyncio.timeout(30):
        await relay.drain()
    return await relay.story(job)


def test_a_users_budget_ends_the_job_that_uses_it_up_and_refuses_the_next_ones_of_that_user_only() -> None:
    async def scenario(stores: Stores) -> None:
        relay = world(stores, *LOOKS, users=UserBudget(max_tokens=450))
        first = await ask(relay, "ann")
        assert (first.view.status, first.view.reason) == ("failed", "MAX_TOKENS")
        assert len(first.of(ModelReplied)) == 5, "the reply that reaches it is the last"
        assert first.of(LastTurn) == [], "it would be at the cost of others"
        [near] = first.of(LimitNear)
        assert near.text.startswith("400 of the 450 tokens that this user may use up in a day are gone")
        told = r"used up today's budget: 500 of 450 tokens \(limits\.users\.max_tokens\); there is room again at 20"
        assert re.search(told, first.view.result or "")
        second = await ask(relay, "ann")
        assert (second.view.status, second.view.reason, second.of(Routed)) == ("failed", "MAX_TOKENS", [])
        assert re.search(told, second.view.result or "")
        assert len((await ask(relay, "bob")).of(ModelReplied)) == 5

    on_server(scenario)


@pytest.mark.parametrize("per", ["hour", "week", "month"])
def test_a_budget_is_for_the_period_that_it_says(per: Period, monkeypatch: pytest.MonkeyPatch) -> None:
    let_clock_be_set(monkeypatch)

    async def scenario(stores: Stores) -> None:
        await set_clock(stores, 1_800 - int(time.time()) % 3_600)  # no hour ends meanwhile
        relay = world(stores, *LOOKS, users=UserBudget(max_tokens=450, per=per))
        first = await ask(relay, "ann")
        assert (first.view.reason, len(first.of(ModelReplied))) == ("MAX_TOKENS", 5)
        [near] = first.of(LimitNear)
        assert f"of the 450 tokens that this user may use up in {'an' if per == 'hour' else 'a'} {per} are" in near.text
        told = (
            rf"used up this {per}'s budget: 500 of 450 tokens \(limits\.users\.max_tokens\); there is room again at 20"
        )
        assert re.search(told, first.view.result or "")
        second = await ask(relay, "ann")
        assert (second.view.status, second.of(Routed)) == ("failed", [])
        assert re.search(told, second.view.result or "")
        assert (await stores.forks.limits_of(first.view.id)) == {"user_tokens": 450, "user_per_s": PERIODS[per]}

    on_server(scenario)


def test_a_months_budget_knows_what_was_used_before_it_was_set() -> None:
    async def scenario(stores: Stores) -> None:
        today = await stores.usage.today()
        month = datetime.now(UTC).replace(day=1)
        for day in {today, (month - datetime(1970, 1, 1, tzinfo=UTC)).days}:
            await as_any(stores.client.hset(keys.usage(str(day)), keys.usage_of("ann"), "1 300 0 0 0"))
            await stores.client.expire(keys.usage(str(day)), 1_000)
        relay = world(stores, *LOOKS, users=UserBudget(max_tokens=300, per="month"))
        assert (await ask(relay, "ann")).of(Routed) == []
        assert (await ask(relay, "bob")).of(Routed) != []

    on_server(scenario)


def test_money_counts_as_tokens_do() -> None:
    async def scenario(stores: Stores) -> None:
        relay = world(stores, *LOOKS, users=UserBudget(max_cost_usd=0.25))
        first = await ask(relay, "ann")
        assert (first.view.reason, len(first.of(ModelReplied))) == ("MAX_COST", 3)
        assert "0.3 of 0.25 US dollars (limits.users.max_cost_usd)" in (first.view.result or "")
        assert (await ask(relay, "ann")).view.reason == "MAX_COST"

    on_server(scenario)


def test_a_sessions_budget_is_its_own() -> None:
    async def scenario(stores: Stores) -> None:
        relay = world(stores, using(said("done"), 300), sessions=Budget(max_tokens=250))
        first = await ask(relay, "ann")
        assert first.view.status == "done"
        again = await ask(relay, "ann", session_of(first.view.id))
        assert (again.view.status, again.view.reason) == ("failed", "MAX_TOKENS")
        assert "this session has used up its budget: 300 of 250 tokens" in (again.view.result or "")
        assert (await ask(relay, "ann")).view.status == "done"

    on_server(scenario)


def test_what_is_used_is_counted_by_agent_user_and_model() -> None:
    async def scenario(stores: Stores) -> None:
        replies = using(calls(call("c1", "look", what="1")), 100), using(said("done"), 50, model="other")
        relay = world(stores, *replies)
        await ask(relay, "ann")
        await ask(relay, "bob")
        today = await stores.usage.today()
        rows = await stores.usage.rows([today - 1, today])
        assert sorted((row.agent, row.user, row.model, row.calls) for row in rows) == [
            ("solo", user, model, 1) for user in ("ann", "bob") for model in ("other", "test")
        ]
        by_model = summed(rows, "model")
        assert list(by_model) == ["test", "other"], "the most tokens first"
        assert by_model["test"].fields == {
            "calls": 2,
            "input_tokens": 180,
            "output_tokens": 20,
            "cost_usd": 0.2,
            "unpriced_calls": 0,
        }
        assert by_model["other"].fields["cost_usd"] is None
        [(day, one)] = summed(rows, "day").items()
        assert day == f"{datetime.now(UTC):%Y-%m-%d}"
        assert one.cells == ["4", "260", "40", "$0.2000 and 2 calls of unknown price"]
        assert 0 < await stores.client.ttl(keys.usage(str(today))) <= keys.USAGE_TTL_S

    on_server(scenario)


def test_who_is_forgotten_has_used_what_was_used_and_cannot_begin_anew_today() -> None:
    async def scenario(stores: Stores) -> None:
        relay = world(stores, using(said("done"), 50), users=UserBudget(max_tokens=90))
        today = await stores.usage.today()
        before = {
            f"row\0{agent}\0{user}\0test": "1 40 10 0 1" for agent, user in (("solo", "(others)"), ("ann", "bob"))
        }
        old: dict[Any, Any] = {**before, "row\0solo\0ann\0test": "2 30 5 7 0", keys.usage_of("ann"): "2 30 5 7 0"}
        await as_any(stores.client.hset(keys.usage(str(today - 1)), mapping=old))
        await stores.client.expire(keys.usage(str(today - 1)), 1_000)
        for _ in range(2):
            await ask(relay, "ann")
        await stores.forgetting.forget("ann")

        rows = await stores.usage.rows([today - 1, today])
        assert sorted(
            (one.day - today, one.agent, one.user, one.calls, one.input_tokens, one.micro_usd) for one in rows
        ) == [
            (-1, "ann", "bob", 1, 40, 0),
            (-1, "solo", "(others)", 3, 70, 7),
            (0, "solo", "(others)", 2, 80, 100_000),
        ]
        assert keys.usage_of("ann") not in await as_any(stores.client.hkeys(keys.usage(str(today - 1))))
        assert (await ask(relay, "ann")).view.reason == "MAX_TOKENS"

    on_server(scenario)


def test_a_day_does_not_grow_for_ever() -> None:
    async def scenario(stores: Stores) -> None:
        today = await stores.usage.today()
        many: dict[Any, Any] = {f"row\0a\0user{number}\0m": "1 1 1 0 0" for number in range(keys.MAX_USAGE_ROWS)}
        await as_any(stores.client.hset(keys.usage(str(today)), mapping=many))
        await stores.client.expire(keys.usage(str(today)), 1_000)
        relay = world(stores, using(said("done"), 50), users=UserBudget(max_tokens=90))
        for _ in range(2):
            assert (await ask(relay, "ann")).view.status == "done"
        assert (await ask(relay, "ann")).view.reason == "MAX_TOKENS", "budgets count all the same"
        [others] = [row for row in await stores.usage.rows([today]) if row.agent == "(others)"]
        assert (others.user, others.model, others.calls) == ("(others)", "test", 2)

    on_server(scenario)


def test_users_that_find_a_full_day_share_one_budget() -> None:
    async def scenario(stores: Stores) -> None:
        day = keys.usage(str(await stores.usage.today()))
        many: dict[Any, Any] = {keys.usage_of(str(number)): "1 1 1 0 0" for number in range(keys.MAX_USAGE_FIELDS)}
        await as_any(stores.client.hset(day, mapping=many))
        await stores.client.expire(day, 1_000)
        relay = world(stores, using(said("done"), 50, model="one of ever new names"), users=UserBudget(max_tokens=90))
        told = [(await ask(relay, user)).view.status for user in ("ann", "bob", "cem", "7")]
        assert told == ["done", "done", "failed", "done"]
        assert await as_any(stores.client.hlen(day)) == keys.MAX_USAGE_FIELDS + 2
        [others] = await stores.usage.rows([await stores.usage.today()])
        assert (others.agent, others.user, others.model, others.calls) == (*["(others)"] * 3, 3)

    on_server(scenario)


@pytest.mark.parametrize(("said_", "counted"), [(-(10**12), 0), (10**12, MOST_TOKENS)])
def test_what_a_server_says_that_a_call_used_is_believed_within_reason(said_: int, counted: int) -> None:
    async def scenario(stores: Stores) -> None:
        reply = said("done")
        told = ModelReply(message=reply.message, usage=Usage(input_tokens=said_, output_tokens=5), model="a\0b")
        relay = world(stores, told, users=UserBudget(max_tokens=10**9))
        for _ in range(2):
            assert (await ask(relay, "ann")).view.status == "done"
        [row] = await stores.usage.rows([await stores.usage.today()])
        assert (row.model, row.calls, row.input_tokens, row.output_tokens) == ("a\0b", 2, 2 * counted, 10)

    on_server(scenario)


def test_a_row_that_none_of_us_has_written_stops_nobody() -> None:
    async def scenario(stores: Stores) -> None:
        today = await stores.usage.today()
        odd: dict[Any, Any] = {
            keys.usage_of("ann"): "1 -5 x",
            "row\0solo\0ann\0test": "",
            "row\0short": "1",
            "what": "1 1 1 1 1",
        }
        await as_any(stores.client.hset(keys.usage(str(today)), mapping=odd))
        await stores.client.expire(keys.usage(str(today)), 1_000)
        relay = world(stores, using(said("done"), 50), users=UserBudget(max_tokens=90))
        assert (await ask(relay, "ann")).view.status == "done"
        [row] = await stores.usage.rows([today])
        assert (row.calls, row.input_tokens) == (1, 40)

    on_server(scenario)


@pytest.mark.parametrize(
    ("per", "told"),
    [
        (
            "hour",
            "this hour's budget: 5 of 4 tokens (limits.users.max_tokens); there is room again at 2026-02-24 23:00 UTC",
        ),
        ("day", "2026-02-25 00:00 UTC, in 1 h 30 min"),
        (
            "week",
            "this week's budget: 5 of 4 tokens (limits.users.max_tokens); there is room again at 2026-03-02 00:00",
        ),
        ("month", "2026-03-01 00:00 UTC, in 4 d 1 h"),
    ],
)
def test_there_is_room_again_when_the_period_ends(per: Period, told: str) -> None:
    now = datetime(2026, 2, 24, 22, 30, tzinfo=UTC)  # a Tuesday
    assert told in why_no_budget(Used("users.max_tokens", 5, 4, of_job=True, per=per), now)


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("users.max_tokens", "there is room again at 2026-03-01 00:00 UTC, in 1 h 30 min"),
        ("sessions.max_cost_usd", "5 of 4 US dollars (limits.sessions.max_cost_usd); begin another one"),
        ("max_tokens", ""),
    ],
)
def test_it_is_said_when_there_is_room_again(limit: str, told: str) -> None:
    now = datetime(2026, 2, 28, 22, 30, tzinfo=UTC)
    why = why_no_budget(Used(limit, 5, 4, of_job=True), now)
    assert told in why
    assert bool(why) == bool(told)
