"""A real server of Chat Completions, where one runs: nothing of PyPI brings a model along.

TEST_MODEL_URL=http://127.0.0.1:11434/v1 TEST_MODEL=qwen3 python -m pytest tests/integration/test_local_model.py
"""

import asyncio
import os

import pytest

from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import Delta
from ekiden.shared.llm.openai import OpenAIModel
from tests.unit.llm.wires import WEATHER, asked

URL, MODEL = os.environ.get("TEST_MODEL_URL"), os.environ.get("TEST_MODEL", "")
SLOW_S = 300.0

pytestmark = pytest.mark.skipif(URL is None, reason="no server of a model: set TEST_MODEL_URL, TEST_MODEL")


@pytest.fixture
def model() -> OpenAIModel:
    return OpenAIModel(KeyAccess("real", URL, None), timeout_s=SLOW_S)


def test_it_answers_and_says_what_that_took(model: OpenAIModel) -> None:
    heard: list[Delta] = []
    reply = asyncio.run(model.reply(asked("Say the word pong.", model=f"real/{MODEL}"), heard.append))
    assert "pong" in reply.message.text.casefold()
    assert heard
    assert reply.usage.input_tokens > 0


def test_it_calls_a_tool_that_the_request_wants(model: OpenAIModel) -> None:
    wanted = "What is the weather in Paris? Use the tool."
    reply = asyncio.run(model.reply(asked(wanted, model=f"real/{MODEL}", tools=(WEATHER,))))
    [call] = reply.message.calls
    assert (call.name, call.args["city"].casefold()) == ("get_weather", "paris")
