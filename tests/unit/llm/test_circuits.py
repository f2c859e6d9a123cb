"""A model that keeps failing is left alone by all workers, until one of them has an answer."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from ekiden.shared.errors import CircuitOpen, ModelError, ModelUnavailable, QuotaExhausted, StoreUnavailable
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.circuits import CircuitModel, CircuitRules, Circuits
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.messages import Message, user_message
from ekiden.shared.stores import keys
from ekiden.shared.stores.circuits import RedisCircuitStore
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.scenarios.relay import on_server

RULES = CircuitRules(failures=3, open_s=60.0)
REPLY = ModelReply(message=Message(role="model", parts=()), model="m")
AWAY = ModelUnavailable("it is away")


@dataclass
class Server:
    """A model that fails with ``failure`` until that is None."""

    failure: Exception | None = AWAY
    calls: int = 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.calls += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return REPLY


@dataclass
class Worker:
    """A process that asks ``server``."""

    server: Server
    store: RedisCircuitStore
    rules: CircuitRules = RULES
    circuits: Circuits = field(init=False)

    def __post_init__(self) -> None:
        self.circuits = Circuits(self.store, self.rules)

    async def ask(self, model: str = "m", account: str = "key 1") -> str:
        """Return what came of a call."""
        asked = CircuitModel(self.server, self.circuits, "p", account)
        request = ModelRequest(agent="a", model=model, instructions="", messages=(user_message("go"),))
        try:
            await asked.reply(request)
        except ModelError as error:
            return type(error).__name__
        return "ok"

    async def told(self) -> None:
        self.circuits.refresh(await self.store.all())


def run(scenario: Callable[[Stores, Server], Awaitable[None]]) -> None:
    async def on(stores: Stores) -> None:
        await scenario(stores, Server())

    on_server(on)


async def its_time_is_over(stores: Stores) -> None:
    for circuit, text in (await as_any(stores.client.hgetall(keys.CIRCUITS))).items():
        about = text.partition("\n")[2]
        await stores.client.hset(keys.CIRCUITS, circuit, f"3 1 2 0\n{about}")


def test_after_some_failures_nobody_asks_it_in_any_process() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        one, other = Worker(server, stores.circuits), Worker(server, stores.circuits)
        assert [await one.ask(), await other.ask(), await one.ask()] == ["ModelUnavailable"] * 3
        assert [await one.ask() for _ in range(4)] == ["CircuitOpen"] * 4
        await other.told()
        assert await other.ask() == "CircuitOpen"
        assert server.calls == 3
        assert await one.ask("n") == await one.ask(account="key 2") == "ModelUnavailable", "these are not known to fail"

    run(scenario)


def test_whoever_is_refused_is_told_why_and_for_how_long() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        worker = Worker(server, stores.circuits)
        for _ in range(3):
            await worker.ask()
        model = RetryingModel(CircuitModel(server, worker.circuits, "p", "key 1"))  # which does not wait for it
        request = ModelRequest(agent="a", model="m", instructions="", messages=(user_message("go"),))
        with pytest.raises(CircuitOpen, match=r"'m' keeps failing.*it is away") as raised:
            await model.reply(request)
        assert 50 < (raised.value.retry_after_s or 0) <= 60
        assert server.calls == 3

    run(scenario)


def test_when_its_time_is_over_one_worker_tries_and_its_answer_lets_all_ask() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        workers = [Worker(server, stores.circuits) for _ in range(3)]
        for worker in workers:
            await worker.ask()
        await its_time_is_over(stores)
        for worker in workers:
            await worker.told()
        server.failure = None
        got = await asyncio.gather(*(worker.ask() for worker in workers for _ in range(5)))
        assert (got.count("ok"), got.count("CircuitOpen"), server.calls) == (1, 14, 4)
        for worker in workers:
            await worker.told()
        assert [await worker.ask() for worker in workers] == ["ok"] * 3

    run(scenario)


def test_a_trial_that_fails_opens_it_again() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        worker = Worker(server, stores.circuits)
        for _ in range(3):
            await worker.ask()
        await its_time_is_over(stores)
        await worker.told()
        assert [await worker.ask() for _ in range(3)] == ["ModelUnavailable", "CircuitOpen", "CircuitOpen"]

    run(scenario)


def test_an_answer_in_between_begins_the_count_anew_and_so_does_a_refusal() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        worker = Worker(server, stores.circuits)
        for well in (None, ModelError("bad request")):
            for failure in (AWAY, AWAY, well):
                server.failure = failure
                await worker.ask()
        assert await stores.circuits.all() == []

    run(scenario)


def test_a_quota_that_is_used_up_is_no_matter_of_tries() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        server.failure = QuotaExhausted("no credit")
        worker, other = Worker(server, stores.circuits), Worker(server, stores.circuits)
        assert [await worker.ask() for _ in range(2)] == ["QuotaExhausted", "QuotaStillExhausted"]
        await other.told()
        assert await other.ask() == "QuotaStillExhausted"

    run(scenario)


class _NoStore(RedisCircuitStore):
    """A server that is away; counts who asks it."""

    def __init__(self) -> None:
        self.asked = 0

    async def _run(self, word: str, circuit: str, **_: object) -> tuple[str, float]:
        self.asked += 1
        raise StoreUnavailable("away")


def test_while_models_answer_the_server_is_not_asked_and_where_it_is_away_models_are_all_the_same() -> None:
    async def scenario() -> None:
        store, server = _NoStore(), Server(failure=None)
        worker = Worker(server, store)
        assert [await worker.ask() for _ in range(10)] == ["ok"] * 10
        assert store.asked == 0
        server.failure = AWAY
        assert {await worker.ask() for _ in range(10)} == {"ModelUnavailable"}
        assert store.asked == 10

    asyncio.run(scenario())


def test_circuits_that_are_switched_off_never_open() -> None:
    async def scenario(stores: Stores, server: Server) -> None:
        worker = Worker(server, stores.circuits, CircuitRules(failures=0))
        assert {await worker.ask() for _ in range(10)} == {"ModelUnavailable"}
        assert await stores.circuits.all() == []

    run(scenario)
