"""Clocks that tests set: a server's, and this process's own.

``let_clock_be_set``: its scripts read its time plus what stands in a key; all else is as it is. ``ServerClock``: the
whole server sees another time, by the library of ``libfaketime`` in its process. ``Passing``: time goes by in here.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from redis import Redis

from ekiden.shared.stores import scripts
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any

__all__ = ["Passing", "ServerClock", "let_clock_be_set", "set_clock"]

_KEY = "ekiden:test:clock"
_TIME = "redis.call('TIME')"
_SET_TIME = (
    "(function() local time = redis.call('TIME');"
    f" return {{time[1] + (redis.call('GET', '{_KEY}') or '0'), time[2]}} end)()"
)
_LIBRARY = "libfaketime.so.1"
_DISTRIBUTIONS = ("/usr/lib/*/faketime", "/usr/lib*/faketime")
"""Where Debian, and where Fedora puts it, if the package of ours is not there."""

_MOMENT_S = 5.0


def let_clock_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every script that is loaded from now on read the time that ``set_clock`` sets."""
    whole = scripts.source_of

    def source_of(name: str) -> str:
        text = whole(name)
        assert text.count(_TIME) <= 1, "scripts read the server's time once, in the prelude, if they do"
        return text.replace(_TIME, _SET_TIME)

    monkeypatch.setattr(scripts, "source_of", source_of)


async def set_clock(stores: Stores, ahead_s: int) -> None:
    """Set the server's clock so far ahead of the real time, or behind it."""
    await as_any(stores.client.set(_KEY, ahead_s, ex=600))


class Passing:
    """Time that goes by at once in this process, its event loops included, so that a limit need not be short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead_s = 0.0
        monotonic = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + self._ahead_s)

    def pass_(self, seconds: float) -> None:
        """Let so much time go by."""
        self._ahead_s += seconds

    def pass_for(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Let it go by for a loop of another thread, and return when that has seen what is late by then."""
        seen = threading.Event()
        self.pass_(seconds)
        loop.call_soon_threadsafe(seen.set)
        seen.wait(_MOMENT_S)


class ServerClock:
    """The clock of a server that is started with ``env``. Its monotonic clock is the real one."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._ahead_s = 0
        self.jump(0)
        self.env = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",  # its name before
        }

    def jump(self, by_s: int) -> None:
        """Let the clock jump forward, or back."""
        self._ahead_s += by_s
        new = self._file.with_suffix(".new")
        new.write_text(f"{self._ahead_s:+d}\n")
        new.replace(self._file)  # at once: the server reads it all the time

    def skip_unless_it_works(self, server: Redis) -> None:
        """Skip the test if the server reads another clock: the library is made for another machine."""
        self.jump(86_400)
        if not _comes(lambda: server.time()[0] - time.time() > 43_200):
            pytest.skip(f"the server does not read the time through {_LIBRARY}")
        self.jump(-86_400)
        assert _comes(lambda: server.time()[0] - time.time() < 43_200)


def _comes(condition: Callable[[], bool]) -> bool:
    """Wait a moment for what the server's time shows: it answers with one that it read a little before."""
    deadline = time.monotonic() + _MOMENT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


def _library() -> Path:
    spec = find_spec("libfaketime")
    for package in (spec and spec.submodule_search_locations) or ():
        for found in Path(package).rglob(_LIBRARY):
            return found
    for pattern in _DISTRIBUTIONS:
        for found in Path("/").glob(f"{pattern[1:]}/{_LIBRARY}"):
            return found
    pytest.skip(f"no {_LIBRARY} here: it comes with the package libfaketime for Python, or with faketime for Linux")
