"""What hangs until a limit has passed, however slow the machine is before that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.doubles.clocks import Passing

Hang = Callable[..., Awaitable[Any]]


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Hang:
    """Return what never returns: as it begins, ten minutes go by at once, also on the clock of the event loop."""
    clock = Passing(monkeypatch)

    async def never(*_: object) -> Any:
        clock.pass_(600.0)
        await asyncio.Event().wait()

    return never
