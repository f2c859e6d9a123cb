"""Servers and clients for all tests."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import fakeredis
import pytest
import structlog
from hypothesis import HealthCheck, settings
from redis.asyncio import Redis
from structlog.dev import plain_traceback

from ekiden.shared import late_logger
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.doubles.fake_scripts import complete_scripts
from tests.forked_workers import fork_workers
from tests.kept_loop import run_on_kept_loop
from tests.servers import shared_url

T = TypeVar("T")

_OURS = ("EKIDEN_", "GEMINI_", "LC_", "COLUMNS", "LINES", "XDG_STATE_HOME")
for name in [name for name in os.environ if name.startswith(_OURS)]:
    del os.environ[name]  # the tests' settings, language and size of the terminal are their own
os.environ["LANG"] = "C.UTF-8"
os.environ.pop("PYTHONUNBUFFERED", None)  # programs with an environment of their own start as if it was unset
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that they start compiles all of Ekiden anew
sys.dont_write_bytecode = False  # and each run of the tests, all of them
os.environ["EKIDEN_AUTO_APPROVE"] = "safe,low,medium,high"  # nobody sits there; tests of approvals take this away
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # else each other home has all learned anew
os.environ["EKIDEN_TRUST"] = "1"  # so are the folders that they make; the tests of trust take this away

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # else examples have so many milliseconds by the clock
complete_scripts()
structlog.get_config()["processors"][-1].exception_formatter = plain_traceback  # rich's takes a tenth of a second each
gc.disable()  # until all tests are found: nothing that is imported goes, and to look for it takes a third of the time


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Import once what each process of the tests needs."""
    fork_workers(config)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but look no more at what has been imported, and not at every 700 new objects."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that start programs."""
    if item.nodeid.startswith(("tests/e2e/", "tests/integration/")):
        item.add_marker("e2e")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start programs: the last ones to end are to be short, or one process works alone."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging as it was: a command that a test runs in this process sets it up for the whole of it.

    Loggers must not be kept either: one that was bound to a test's stream would never be heard by another.
    """
    configure = structlog.configure
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**{**how, "cache_logger_on_first_use": False}))
    monkeypatch.setattr(late_logger, "_to_set_up", [])  # what a command would do with its first line
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def valkey_url() -> str:
    """The address of a real server that all tests share; each starts with an empty database."""
    return shared_url()


@dataclass
class Backend:
    """A kind of server to run a scenario on."""

    run_main: Callable[[Callable[[Redis], Coroutine[Any, Any, Any]]], Any]
    """Runs what takes a client of the server."""

    def run(self, scenario: Callable[[Stores], Awaitable[T]]) -> T:
        """Run ``scenario`` on an empty database; fail if it leaves a key that would live for ever."""

        async def main(client: Redis) -> T:
            await as_any(client.flushall())
            value = await scenario(Stores.on(client))
            assert await immortal_keys(client) == []
            return value

        whole: T = self.run_main(main)
        return whole


_WITHOUT_TTL = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TTL', key) == -1 then table.insert(found, key) end
end
return found
"""


async def immortal_keys(client: Redis) -> list[str]:
    """Keys without a TTL that are none of the few that may be."""
    found = await as_any(client.register_script(_WITHOUT_TTL)())
    return [key for key in found if not keys.is_permanent(key)]


@pytest.fixture(params=["fakeredis", "valkey"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both kinds of server: a contract holds on either."""
    return fake_backend() if request.param == "fakeredis" else real_backend()


@pytest.fixture
def valkey() -> Backend:
    """The real server alone."""
    return real_backend()


def real_backend() -> Backend:
    """The real server."""
    return Backend(run_on_kept_loop)


def fake_backend() -> Backend:
    """One that is written in Python."""

    async def closing(main: Callable[[Redis], Coroutine[Any, Any, T]]) -> T:
        async with fakeredis.FakeAsyncRedis(decode_responses=True, version=7) as client:
            return await main(client)

    return Backend(lambda main: asyncio.run(closing(main)))


@pytest.fixture
def corpus() -> Path:
    """The folder of real agent files and labelled prompts beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus is not beside this checkout")
    return folder
