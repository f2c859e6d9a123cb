"""Gemini's double, and a model that talks to it through the real client."""

import pytest

from ekiden.shared.llm.genai.access import GeminiAccess
from tests.unit.llm.conftest import Worlds
from tests.unit.llm.wires import GEMINI, KEY, World

SIGNING = "gemini-3.8-flash"
OTHER_SIGNING = "gemini-4-argon"
PLAIN = GEMINI.model


def access_to(world: World) -> GeminiAccess:
    return GeminiAccess(api_key=KEY, base_url=world.server.url)


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds.of(GEMINI)
