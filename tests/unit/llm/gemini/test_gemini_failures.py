"""What fails, and what it is called: the remedy is in the message."""

import asyncio
import time
from typing import Any

import pytest

from ekiden.shared.errors import (
    EkidenError,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    QuotaExhausted,
    RequestRefused,
    UnknownModel,
)
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from tests.unit.llm.gemini.conftest import World, asked

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@BOTH
@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        ({"error": 429, "retry_delay": 2.5}, ModelUnavailable, "Rate limit"),
        ({"error": 429, "per_day": True}, QuotaExhausted, "day's quota"),
        ({"error": 429, "no_quota": True}, QuotaExhausted, "no quota for model"),
        ({"error": 429, "no_quota": True, "per_day": True}, QuotaExhausted, "no quota for model"),
        ({"error": 503}, ModelUnavailable, "overloaded"),
        ({"error": 500}, ModelUnavailable, "internal error"),
        ({"error": 504}, ModelUnavailable, "Deadline expired"),
        ({"error": 400, "message": "* tools: bad"}, RequestRefused, "tools: bad"),
        ({"error": 400, "message": "API key expired. Please renew the API key."}, ModelAccessDenied, "GEMINI_API_KEY"),
        ({"error": 401}, ModelAccessDenied, "GEMINI_API_KEY"),
        ({"error": 403}, ModelAccessDenied, "permission"),
        ({"disconnect": True}, ModelUnavailable, "lost or refused"),
        ({"raw": "<html>hello</html>"}, ModelUnavailable, "GEMINI_BASE_URL"),
        ({"raw": '{"candidates": [{"content": {"parts": 7}}]}'}, ModelUnavailable, "GEMINI_BASE_URL"),
        ({"raw": "<html>busy</html>", "status": 502}, ModelUnavailable, "no reason given"),
        ({"raw": "<html>not here</html>", "status": 404}, ModelError, "GEMINI_BASE_URL"),
    ],
)
def test_each_failure_has_its_name(
    world: World, reply: dict[str, Any], error: type[EkidenError], says: str, stream: bool
) -> None:
    world.rule("^go", reply)
    with pytest.raises(error, match=says) as raised:
        world.ask("go", stream=stream)
    assert type(raised.value) is error
    assert len(world.server.requests) == 1  # nobody tries again behind our back


@BOTH
@pytest.mark.parametrize(
    ("reply", "after_s"),
    [
        ({"error": 429, "retry_delay": 2.5}, 2.5),
        ({"error": 429, "retry_after": 7}, 7.0),
        ({"error": 503, "retry_after": 3}, 3.0),
        ({"error": 503}, None),
    ],
)
def test_what_the_server_says_of_coming_back_is_kept(
    world: World, reply: dict[str, Any], after_s: float | None, stream: bool
) -> None:
    world.rule("^go", reply)
    with pytest.raises(ModelUnavailable) as raised:
        world.ask("go", stream=stream)
    assert raised.value.retry_after_s == after_s


@pytest.mark.parametrize("reply", [{"stream_error": 503}, {"cut_after": 1}])
def test_a_stream_that_breaks_is_unavailable_after_what_it_showed(world: World, reply: dict[str, Any]) -> None:
    world.rule("^go", {"text": ["first ", "half ", "rest"], **reply})
    with pytest.raises(ModelUnavailable):
        world.ask("go", stream=True)
    assert world.shown[0] == "first "
    assert "rest" not in world.shown


@BOTH
def test_a_model_that_hangs_is_given_up_at_our_own_deadline(world: World, stream: bool) -> None:
    world.timeout_s = 0.3
    world.rule("^go", {"hang": 30, "text": "late"})
    with pytest.raises(ModelUnavailable, match=r"0\.3 s"):
        world.ask("go", stream=stream)


def test_a_stream_that_drips_does_not_outlive_the_deadline(world: World) -> None:
    world.timeout_s = 0.5
    world.rule("^go", {"text": ["drip "] * 100, "chunk_delay": 0.1})
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match="did not answer"):
        world.ask("go", stream=True)
    assert world.shown
    assert time.monotonic() - began < 5


def test_a_deadline_of_the_caller_is_not_taken_for_ours(world: World) -> None:
    world.rule("^go", {"hang": 30})

    async def call() -> None:
        model = GeminiModel(world.access, timeout_s=30)
        try:
            async with asyncio.timeout(0.3):
                await model.reply(asked("go"))
        finally:
            await model.aclose()

    with pytest.raises(TimeoutError):
        asyncio.run(call())


def test_a_wrong_key_is_named_as_such(world: World) -> None:
    world.server.keys = {"another"}
    with pytest.raises(ModelAccessDenied, match="GEMINI_API_KEY") as raised:
        world.ask("go")
    assert "test" not in str(raised.value)


def test_a_model_that_gemini_lacks_is_named(world: World) -> None:
    with pytest.raises(UnknownModel, match="gemini-9"):
        world.ask("go", model="gemini-9")


def test_nobody_at_the_address_is_unavailable() -> None:
    async def call() -> None:
        model = GeminiModel(GeminiAccess(api_key="test", base_url="http://127.0.0.1:9"))
        try:
            await model.reply(asked("go"))
        finally:
            await model.aclose()

    with pytest.raises(ModelUnavailable, match="lost or refused"):
        asyncio.run(call())


def test_a_bug_of_the_listener_is_not_dressed_up(world: World) -> None:
    async def call() -> None:
        model = GeminiModel(world.access)
        try:
            await model.reply(asked("hello"), lambda delta: 1 / 0)  # type: ignore[arg-type]
        finally:
            await model.aclose()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(call())


def test_a_request_without_any_text_is_refused_by_gemini_itself(world: World) -> None:
    with pytest.raises(RequestRefused):
        world.ask("")
