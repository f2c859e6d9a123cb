"""Calls of a model that has a limit: they wait a moment in their worker, or their legs wait without one."""

import asyncio
import itertools

import pytest

from ekiden.shared.errors import IndexOverwritten, ModelUnavailable
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.llm.circuits import CircuitRules, Circuits
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.messages import Usage
from ekiden.shared.model_limits import limit_for, limits_of
from ekiden.shared.records import LegSuspended, ModelReplied
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.bootstrap import _follow
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.world import Replies, Said, said

LIMIT = ModelLimitValues(rpm=1)
SOLO = {"name": "solo"}


def world(stores: Stores, *replies: Said, limit: ModelLimitValues = LIMIT) -> tuple[Relay, Replies]:
    """An agent that says each reply in a job of its own, the first one again and again where there is one only."""
    model = Replies({"solo": replies})
    return Relay(stores, team(SOLO), model, limits={"scripted": limit}), model


async def move(stores: Stores, seconds: int) -> None:
    """Let relay time pass, and wake whom it is time to wake, as sweepers do."""
    offset_ms = await as_any(stores.client.hincrby(keys.CLOCK, "offset_ms", seconds * 1000))
    await stores.model_limits.wake()
    now_ms = await stores.now_ms() + offset_ms
    for job in await stores.jobs.overdue(60.0, at_ms=now_ms):
        await stores.jobs.requeue(job, 60.0, 5, at_ms=now_ms)


_requests = itertools.count(1)


async def job_of(relay: Relay) -> str:
    return await relay.submit(f"go {next(_requests)}", agent="solo")


def test_a_leg_that_must_wait_for_long_waits_without_a_worker_until_its_turn_has_come() -> None:
    async def scenario(stores: Stores) -> None:
        relay, model = world(stores, said("done"))
        first, second = await job_of(relay), await job_of(relay)
        await relay.drain()
        assert (await relay.story(first)).view.status == "done"
        story = await relay.story(second)
        [pause] = story.of(LegSuspended)
        assert (story.view.status, pause.cause, len(model.requests)) == ("suspended", "limit", 1)
        assert pause.detail.startswith("scripted's limit of 1 call a minute, about ")
        await move(stores, 5)
        assert await relay.drain() == []
        await move(stores, 60)
        await relay.drain()
        story = await relay.story(second)
        assert (story.view.status, len(story.of(LegSuspended))) == ("done", 1)
        assert len(model.requests) == 2

    on_server(scenario)


def test_a_short_wait_needs_no_pause() -> None:
    async def scenario(stores: Stores) -> None:
        async def slow() -> ModelReply:
            await asyncio.sleep(0.1)
            return said("done")

        relay, _ = world(stores, slow, limit=ModelLimitValues(concurrent=1))
        jobs = [await job_of(relay) for _ in range(2)]
        await asyncio.gather(relay.drain(), relay.drain())
        stories = [await relay.story(job) for job in jobs]
        assert [(story.view.status, len(story.of(LegSuspended))) for story in stories] == [("done", 0)] * 2

    on_server(scenario)


def test_a_job_can_be_cancelled_while_it_waits() -> None:
    async def scenario(stores: Stores) -> None:
        relay, model = world(stores, said("done"))
        await job_of(relay)
        waiting, behind = await job_of(relay), await job_of(relay)
        await relay.drain()
        await stop_job(stores.jobs, waiting, "user")
        await move(stores, 65)
        await relay.drain()
        assert (await relay.story(waiting)).view.status == "cancelled"
        assert (await relay.story(behind)).view.status == "done", "the place of the other one holds up nobody"
        assert len(model.requests) == 2

    on_server(scenario)


def test_a_provider_that_is_asked_too_often_is_asked_by_nobody_for_as_long_as_it_says() -> None:
    async def scenario(stores: Stores) -> None:
        relay, model = world(stores, ModelUnavailable("429", 20.0, is_rate_limit=True), limit=ModelLimitValues(rpm=100))
        first, second = await job_of(relay), await job_of(relay)
        await relay.drain()
        assert len(model.requests) == 1, "the second one has not asked"
        [pause] = (await relay.story(second)).of(LegSuspended)
        assert pause.detail == "scripted, whose provider is asked too often, about 20 s"
        assert (await relay.story(first)).of(LegSuspended)[0].cause == "retry"

    on_server(scenario)


def test_what_a_call_has_used_counts() -> None:
    async def scenario(stores: Stores) -> None:
        usage = Usage(input_tokens=700, output_tokens=200)
        limit = ModelLimitValues(tpm=10_000)
        relay, _ = world(stores, said("done").model_copy(update={"usage": usage}), limit=limit)
        job = await job_of(relay)
        await relay.drain()
        assert (await relay.story(job)).of(ModelReplied)[0].usage == usage
        known = limit_for("scripted", {"scripted": limit}, {})
        assert known is not None
        state = await stores.model_limits.state(known)
        assert (state.tokens, state.calls, state.running) == (900, 1, 0)

    on_server(scenario)


def test_a_call_that_no_minute_has_room_for_fails_and_says_what_to_do() -> None:
    async def scenario(stores: Stores) -> None:
        relay, model = world(stores, said("done"), limit=ModelLimitValues(tpm=10))
        story = await relay.told("go " * 100, agent="solo")
        assert story.view.status == "failed"
        assert "limits.models lets 10 a minute through: raise limits.models.scripted.tpm" in (story.view.result or "")
        assert model.requests == []

    on_server(scenario)


@pytest.mark.parametrize(
    ("said_", "has_one"),
    [("gemini-2.5-flash", True), ("gemini/gemini-2.5-flash", True), ("gemini-2.5", False), ("gemini-2.5-pro", False)],
)
def test_a_limit_is_found_by_the_models_name_or_behind_its_providers(said_: str, has_one: bool) -> None:
    found = limit_for("gemini-2.5-flash", {said_: LIMIT}, {})
    assert (found is not None) == has_one


def test_a_limit_of_a_model_that_nobody_has_is_known() -> None:
    found = limits_of(dict.fromkeys(("gemini/gemini-2.5-flash", "scripted", "nobodys"), LIMIT), {})
    assert {name: limit and limit.name for name, limit in found.items()} == {
        "gemini/gemini-2.5-flash": "gemini-2.5-flash",
        "scripted": "scripted",
        "nobodys": None,
    }


def test_whoever_has_the_same_key_shares_a_limit_and_the_key_is_not_to_be_read() -> None:
    def key(model: str, **env: str) -> str:
        found = limit_for(model, {model: LIMIT}, env)
        assert found is not None
        return found.key

    learn_providers(Settings(providers={"local": {"type": "openai", "base_url": "http://127.0.0.1:1/v1"}}))
    try:
        one, same, other = (key("gemini-2.5-flash", GEMINI_API_KEY=secret) for secret in ("aaaa", "aaaa", "bbbb"))
        assert one == same != other
        assert "aaaa" not in one
        assert key("local/qwen3") == key("local/qwen3", GEMINI_API_KEY="aaaa")
        assert key("gemini-2.5-flash", GOOGLE_API_KEY="aaaa") == one
    finally:
        learn_providers(Settings())


def test_a_key_that_is_used_at_two_addresses_shares_nothing() -> None:
    own = {"type": "openai", "models": ["m"]}
    there = own | {"base_url": "http://there/v1", "api_key_env": "OPENAI_API_KEY"}
    assert learn_providers(load_settings(providers={"own": own, "there": there})) == ()
    said = dict.fromkeys(("own/m", "there/m", "claude-x", "gemini-x"), LIMIT)

    def key_of(model: str, variable: str = "", value: str = "") -> str:
        env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k", variable: value}
        limit = limit_for(model, said, env)
        assert limit is not None
        return limit.key

    try:
        for model, variable in [
            ("own/m", "OPENAI_BASE_URL"),
            ("own/m", "OPENAI_PROJECT_ID"),
            ("claude-x", "ANTHROPIC_BASE_URL"),
            ("gemini-x", "GEMINI_BASE_URL"),
        ]:
            assert key_of(model) != key_of(model, variable, "http://a") != key_of(model, variable, "http://b")
        assert key_of("there/m") == key_of("there/m", "OPENAI_BASE_URL", "http://a"), "it does not go there"
    finally:
        learn_providers(Settings())


def test_whose_turn_has_come_is_woken_where_circuits_cannot_be_read() -> None:
    async def scenario(stores: Stores) -> None:
        relay, _ = world(stores, said("done"))
        await job_of(relay)
        await job_of(relay)
        await relay.drain()
        await as_any(stores.client.hset(keys.CLOCK, "offset_ms", 62_000))
        await stores.client.set(keys.CIRCUITS, "a text")
        follow = _follow(Circuits(stores.circuits, CircuitRules()), has_limits=True)
        with pytest.raises(IndexOverwritten):
            await follow(stores)
        assert await as_any(stores.client.smembers(keys.LIMITED)) == set(), "nobody waits any more"
        await stores.client.delete(keys.CIRCUITS)

    on_server(scenario)
