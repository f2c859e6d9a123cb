"""Servers and clients for all tests."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import fakeredis
import pytest
import structlog
from redis.asyncio import Redis

from ekiden.shared.embedded import attach
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any, connect

T = TypeVar("T")

_OURS = ("EKIDEN_", "GEMINI_", "LC_", "COLUMNS", "LINES", "XDG_STATE_HOME")
for name in [name for name in os.environ if name.startswith(_OURS)]:
    del os.environ[name]  # the tests' settings, language and size of the terminal are their own
os.environ["LANG"] = "C.UTF-8"
os.environ.pop("PYTHONUNBUFFERED", None)  # programs with an environment of their own start as if it was unset
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that they start compiles all of Ekiden anew
sys.dont_write_bytecode = False  # and each run of the tests, all of them
os.environ["EKIDEN_AUTO_APPROVE"] = "safe,low,medium,high"  # nobody sits there; tests of approvals take this away
os.environ["EKIDEN_TRUST"] = "1"  # so are the folders that they make; the tests of trust take this away


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start programs: the last ones to end are to be short, or one process works alone."""
    items.sort(key=lambda item: not {"e2e", "integration"}.intersection(item.path.parts))


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging as it was: a command that a test runs in this process sets it up for the whole of it.

    Loggers must not be kept either: one that was bound to a test's stream would never be heard by another.
    """
    configure = structlog.configure
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**{**how, "cache_logger_on_first_use": False}))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server that all tests share; each starts with an empty database."""
    with attach(tmp_path_factory.mktemp("valkey")) as attachment:
        yield attachment.url


@dataclass
class Backend:
    """A kind of server to run a scenario on."""

    connect: Callable[[], Redis]

    def run(self, scenario: Callable[[Stores], Awaitable[T]]) -> T:
        """Run ``scenario`` on an empty database; fail if it leaves a key that would live for ever."""

        async def whole() -> T:
            client = self.connect()
            await as_any(client.flushall())
            try:
                value = await scenario(Stores.on(client))
                assert await immortal_keys(client) == []
                return value
            finally:
                await client.aclose()

        return asyncio.run(whole())


async def immortal_keys(client: Redis) -> list[str]:
    """Keys without a TTL that are none of the few that may be."""
    found = [key async for key in client.scan_iter()]
    return [key for key in found if await as_any(client.ttl(key)) == -1 and not keys.is_permanent(key)]


@pytest.fixture(params=["fakeredis", "valkey"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both kinds of server: a contract holds on either."""
    if request.param == "fakeredis":
        return Backend(lambda: fakeredis.FakeAsyncRedis(decode_responses=True, version=7))
    return real_backend(request.getfixturevalue("valkey_url"))


@pytest.fixture
def valkey(valkey_url: str) -> Backend:
    """The real server alone."""
    return real_backend(valkey_url)


def real_backend(url: str) -> Backend:
    """A backend on the server at ``url``."""
    return Backend(lambda: connect(url))


@pytest.fixture
def corpus() -> Path:
    """The folder of real agent files and labelled prompts beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus is not beside this checkout")
    return folder
