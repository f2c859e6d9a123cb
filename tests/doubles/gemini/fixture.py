"""The server as a pytest fixture: name it in a ``conftest.py`` to use it below there."""

from collections.abc import Iterator

import pytest

from tests.doubles.gemini.server import GeminiServer

__all__ = ["gemini"]


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    """A server of the test's own, without rules."""
    with GeminiServer() as server:
        yield server
