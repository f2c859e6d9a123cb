"""A server's clock that tests set: scripts read its time plus what stands in a key; all else is as it is."""

import pytest

from shared.stores import scripts
from shared.stores.opening import Stores
from shared.stores.redis import as_any

__all__ = ["let_clock_be_set", "set_clock"]

_KEY = "ekiden:test:clock"
_TIME = "redis.call('TIME')"
_SET_TIME = (
    "(function() local time = redis.call('TIME');"
    f" return {{time[1] + (redis.call('GET', '{_KEY}') or '0'), time[2]}} end)()"
)


def let_clock_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every script that is loaded from now on read the time that ``set_clock`` sets."""
    whole = scripts.source_of

    def source_of(name: str) -> str:
        text = whole(name)
        assert text.count(_TIME) == 1, "scripts read the server's time once, in the prelude"
        return text.replace(_TIME, _SET_TIME)

    monkeypatch.setattr(scripts, "source_of", source_of)


async def set_clock(stores: Stores, ahead_s: int) -> None:
    """Set the server's clock so far ahead of the real time, or behind it."""
    await as_any(stores.client.set(_KEY, ahead_s, ex=600))
