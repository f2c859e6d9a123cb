"""Trying again: what, how long, how often; what a reader of the stream sees of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ekiden.shared.errors import ModelError, ModelUnavailable, QuotaExhausted
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.messages import Message, TextPart

REQUEST = ModelRequest(agent="a", model="m", instructions="", messages=())
DONE = ModelReply(message=Message(role="model", parts=(TextPart(text="done"),)))


@dataclass
class Moody:
    """Fails as listed, then answers; shows a piece of text before either."""

    failures: list[BaseException]
    calls: int = 0
    shows: bool = True

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.calls += 1
        if on_delta is not None and self.shows:
            on_delta(Delta(f"try {self.calls}"))
        if self.failures:
            raise self.failures.pop(0)
        return DONE


@dataclass
class Clock:
    """Records waits instead of waiting."""

    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def ask(model: Moody, on_delta: OnDelta | None = None, attempts: int = 5, total_s: float = 300) -> list[float]:
    clock = Clock()
    retrying = RetryingModel(model, attempts=attempts, total_s=total_s, sleep=clock.sleep)
    assert asyncio.run(retrying.reply(REQUEST, on_delta)) == DONE
    return clock.waits


def test_tries_again_after_what_may_pass() -> None:
    model = Moody([ModelUnavailable("busy"), ModelUnavailable("busy")])
    assert len(ask(model)) == 2
    assert model.calls == 3


def test_waits_grow_and_stay_bounded() -> None:
    waits = ask(Moody([ModelUnavailable("busy") for _ in range(9)]), attempts=10, total_s=10_000)
    assert all(0.25 <= wait <= min(60, 2.0**number) for number, wait in enumerate(waits))
    assert len(set(waits)) > 1


def test_waits_as_long_as_the_provider_asks_and_little_longer() -> None:
    (wait,) = ask(Moody([ModelUnavailable("limit", retry_after_s=17.5)]))
    assert 17.5 <= wait <= 18.5


@pytest.mark.parametrize(
    "failure", [ModelError("bad"), QuotaExhausted("tomorrow"), asyncio.CancelledError(), ValueError("a bug")]
)
def test_everything_else_passes_at_once(failure: BaseException) -> None:
    model = Moody([failure])
    with pytest.raises(type(failure)):
        ask(model)
    assert model.calls == 1


def test_gives_up_after_its_attempts_and_says_so() -> None:
    model = Moody([ModelUnavailable("busy") for _ in range(9)])
    with pytest.raises(ModelUnavailable, match=r"busy .*3 times"):
        ask(model, attempts=3)
    assert model.calls == 3


def test_does_not_begin_a_wait_that_would_outlast_its_time() -> None:
    model = Moody([ModelUnavailable("limit", retry_after_s=40)])
    with pytest.raises(ModelUnavailable, match="40 s") as raised:
        ask(model, total_s=30)
    assert raised.value.retry_after_s == 40
    assert model.calls == 1


def test_says_that_the_text_of_a_failed_attempt_is_void() -> None:
    deltas: list[Delta] = []
    ask(Moody([ModelUnavailable("busy")]), deltas.append)
    assert deltas == [Delta("try 1"), Delta("", restart=True), Delta("try 2")]


def test_says_nothing_when_nothing_was_shown() -> None:
    deltas: list[Delta] = []
    ask(Moody([ModelUnavailable("busy")], shows=False), deltas.append)
    assert deltas == []


def test_a_cancelled_wait_ends_at_once() -> None:
    model = Moody([ModelUnavailable("busy", retry_after_s=60)])

    async def cancelled() -> None:
        waits = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waits.set()
            await asyncio.sleep(seconds)

        task = asyncio.create_task(RetryingModel(model, sleep=sleep).reply(REQUEST))
        await waits.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert model.calls == 1


def test_one_wrapper_serves_calls_side_by_side() -> None:
    async def both() -> list[ModelReply]:
        make: Callable[[], Moody] = lambda: Moody([ModelUnavailable("busy")])  # noqa: E731 (a factory, twice)
        clock = Clock()
        retrying = [RetryingModel(make(), sleep=clock.sleep) for _ in range(2)]
        shared = RetryingModel(Moody([ModelUnavailable("busy"), ModelUnavailable("busy")]), sleep=clock.sleep)
        return await asyncio.gather(*(one.reply(REQUEST) for one in (*retrying, shared, shared)))

    assert asyncio.run(both()) == [DONE] * 4
