"""What fails at servers of Chat Completions, and what it is called: the remedy is in the message."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
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
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.openai import OpenAIModel
from tests.doubles.openai_server import OpenAIServer
from tests.unit.llm.wires import World, asked

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@BOTH
@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        ({"error": 429}, ModelUnavailable, "Rate limit"),
        ({"error": 429, "code": "insufficient_quota"}, QuotaExhausted, "used up"),
        ({"error": 402, "message": "Insufficient Balance"}, QuotaExhausted, "Insufficient Balance"),
        ({"error": 503, "message": "overloaded"}, ModelUnavailable, "overloaded"),
        ({"error": 408}, ModelUnavailable, "408"),
        ({"error": 400, "code": "context_length_exceeded"}, RequestRefused, "refuses the request"),
        ({"error": 401}, ModelAccessDenied, "LOCAL_KEY"),
        ({"error": 404, "code": "model_not_found"}, UnknownModel, "qwen3"),
        ({"raw": "<html>hello</html>"}, ModelError, "providers.local.base_url"),
        ({"raw": "{}", "type": "application/json"}, ModelError, "base_url|no reason given"),
        ({"raw": "<html>busy</html>", "status": 502}, ModelUnavailable, "no reason given"),
    ],
)
def test_each_failure_has_its_name(
    world: World, reply: dict[str, Any], error: type[EkidenError], says: str, stream: bool
) -> None:
    world.rule("^go", reply)
    with pytest.raises(error, match=says):
        world.ask("go", stream=stream)
    assert len(world.server.requests) == 1  # nobody tries again behind our back


def test_a_failure_with_status_200_is_one(world: World) -> None:
    world.rule("^go", {"raw": '{"error": {"message": "upstream is down"}}', "type": "application/json"})
    with pytest.raises(ModelUnavailable, match="upstream is down"):
        world.ask("go")


@pytest.mark.parametrize(
    ("headers", "after_s"),
    [
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e300"}, 3_600.0),
        ({"retry-after": "Sat, 99999999999 Nov 2026 00:00:00 GMT"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9" * 400 + "s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"}, 62.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({}, None),
    ],
)
def test_what_the_server_says_of_coming_back_is_kept(
    world: World, headers: dict[str, str], after_s: float | None
) -> None:
    world.rule("^go", {"error": 429, "headers": headers})
    with pytest.raises(ModelUnavailable) as raised:
        world.ask("go")
    assert raised.value.retry_after_s == after_s


def test_a_date_to_come_back_at_is_a_wait(world: World) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    world.rule("^go", {"error": 503, "headers": {"retry-after": at}})
    with pytest.raises(ModelUnavailable) as raised:
        world.ask("go")
    assert 30 < (raised.value.retry_after_s or 0) <= 60


async def ask_once(access: KeyAccess) -> str:
    model = OpenAIModel(access)
    try:
        return (await model.reply(asked("hello", model=f"{access.name}/qwen3"))).message.text
    finally:
        await model.aclose()


def test_a_proxy_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
    with pytest.raises(ModelError, match="HTTP_PROXY"):
        asyncio.run(ask_once(KeyAccess("local", "http://127.0.0.1:9/v1")))


def test_a_server_of_ones_own_gets_no_key_that_is_meant_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "meant-for-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: meant-for-openai\nAuthorization: Bearer meant-for-openai")
    with OpenAIServer() as server:
        assert asyncio.run(ask_once(KeyAccess("local", server.url)))
        assert asyncio.run(ask_once(KeyAccess("local", server.url, "LOCAL_KEY", "its-own")))
        bare, keyed = server.requests
    assert "authorization" not in bare.headers
    assert keyed.headers["authorization"] == "Bearer its-own"
    assert "meant-for-openai" not in f"{bare.headers} {keyed.headers}"
