"""A server of Chat Completions, and a model that talks to it through the real client."""

import pytest

from tests.unit.llm.conftest import Worlds
from tests.unit.llm.wires import OPENAI, World

QWEN = OPENAI.model


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds.of(OPENAI)
