"""Servers that go back in time at one address: by a crash of their host, or the promotion of a replica that lags."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tests.integration.proxy import Proxy, Server
from tests.integration.scratch import DEADLINE_S

__all__ = ["Rewind", "RewindingServer", "Window", "rewinding_server"]

Rewind = Literal["crash", "failover"]


@dataclass(frozen=True)
class Window:
    """What a server has forgotten: nothing from before ``began``. Seconds since the epoch, by the servers' clock."""

    began: float
    ended: float

    def holds(self, at_s: float, slack_s: float = 0.0) -> bool:
        """Tell whether something that was done then may be forgotten."""
        return self.began <= at_s <= self.ended + slack_s


class RewindingServer(Protocol):
    """A server that can be made to forget."""

    url: str

    def rewind(self, lost_s: float) -> Window:
        """Forget what comes in the next ``lost_s``; return when it has, and serves again."""
        ...


class CrashingHost:
    """A server whose append-only file loses its tail, as with ``appendfsync everysec``, if by more than a second."""

    def __init__(self, folder: Path) -> None:
        self._server = Server(folder)
        self._chance = random.Random(7)
        self.url = self._server.url

    def rewind(self, lost_s: float) -> Window:
        """See ``RewindingServer``. The file is cut anywhere behind what is safe, also within a command."""
        began = time.time()
        safe = self._server.written()
        time.sleep(lost_s)
        unsafe = self._server.written() - safe
        self._server.go_back(safe + self._chance.randint(0, unsafe // 4))
        return Window(began, time.time())

    def close(self) -> None:
        """End it."""
        self._server.kill()


class FailingOver:
    """A primary and a replica behind one address. The line between them is cut before the primary is lost."""

    def __init__(self, folder: Path) -> None:
        self._options = {"repl-diskless-sync-delay": "0"}
        folders = folder / "one", folder / "two"
        for one in folders:
            one.mkdir()
        self._primary, self._replica = (Server(one, None, **self._options) for one in folders)
        self._front = Proxy(self._primary.port)
        self._line = Proxy(self._primary.port)
        self.url = self._front.url
        self._follow()

    def rewind(self, lost_s: float) -> Window:
        """See ``RewindingServer``. The lost primary comes back as the replica."""
        began = time.time()
        self._wait_until_level()
        self._line.be("refuse")
        time.sleep(lost_s)
        self._primary.kill()
        self._replica.admin.replicaof("NO", "ONE")
        self._front.lead_to(self._replica.port)
        ended = time.time()
        self._primary, self._replica = self._replica, self._primary
        self._replica.start()
        self._line.lead_to(self._primary.port)
        self._line.be("pass")
        self._follow()
        return Window(began, ended)

    def close(self) -> None:
        """End both."""
        self._front.close()
        self._line.close()
        self._primary.kill()
        self._replica.kill()

    def _follow(self) -> None:
        self._replica.admin.replicaof("127.0.0.1", self._line.url.rpartition(":")[2].partition("/")[0])
        self._wait_until_level()

    def _wait_until_level(self) -> None:
        """Return when the replica has all that the primary has acknowledged so far."""
        deadline = time.monotonic() + DEADLINE_S
        while not (self._primary.admin.publish("level", "") == 0 and self._primary.admin.wait(1, 500)):
            assert time.monotonic() < deadline, "the replica does not catch up"


@contextmanager
def rewinding_server(kind: Rewind, folder: Path) -> Iterator[RewindingServer]:
    """Run a server inside the block."""
    folder.mkdir()
    server = CrashingHost(folder) if kind == "crash" else FailingOver(folder)
    try:
        yield server
    finally:
        server.close()
