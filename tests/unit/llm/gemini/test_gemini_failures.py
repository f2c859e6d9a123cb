"""What fails, and what it is called: the remedy is in the message."""

from typing import Any

import pytest

from ekiden.shared.errors import (
    EkidenError,
    ModelAccessDenied,
    ModelUnavailable,
    QuotaExhausted,
    RequestRefused,
)
from tests.unit.llm.wires import World

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
        ({"error": 504}, ModelUnavailable, "Deadline expired"),
        ({"error": 400, "message": "* tools: bad"}, RequestRefused, "tools: bad"),
        ({"error": 400, "message": "API key expired. Please renew the API key."}, ModelAccessDenied, "GEMINI_API_KEY"),
        ({"error": 401}, ModelAccessDenied, "GEMINI_API_KEY"),
        ({"raw": "<html>hello</html>"}, ModelUnavailable, "GEMINI_BASE_URL"),
        ({"raw": '{"candidates": [{"content": {"parts": 7}}]}'}, ModelUnavailable, "GEMINI_BASE_URL"),
        ({"raw": "<html>busy</html>", "status": 502}, ModelUnavailable, "no reason given"),
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
    ],
)
def test_what_the_server_says_of_coming_back_is_kept(
    world: World, reply: dict[str, Any], after_s: float | None, stream: bool
) -> None:
    world.rule("^go", reply)
    with pytest.raises(ModelUnavailable) as raised:
        world.ask("go", stream=stream)
    assert raised.value.retry_after_s == after_s
