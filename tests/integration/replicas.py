"""A server with a replica that can be held up, for tests of what waits for replicas."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis import Redis

from tests.integration.scratch import DEADLINE_S, Scratch, scratch_server

__all__ = ["Pair", "paired_servers"]


@dataclass(frozen=True)
class Pair:
    """A primary and its replica."""

    primary: Scratch
    replica: Scratch

    @property
    def url(self) -> str:
        """The primary's address."""
        return self.primary.url

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Let the replica get nothing inside the block; the primary takes it for connected."""
        self.replica.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.replica.process.send_signal(signal.SIGCONT)
            self.wait_until_level()

    def admin(self, server: Scratch) -> Redis:
        """A connection to one of the two."""
        return Redis(port=server.port, decode_responses=True)

    def wait_until_level(self) -> None:
        """Return when the replica has all that the primary has."""
        with self.admin(self.primary) as primary:
            _until(lambda: primary.publish("level", "") == 0 and primary.wait(1, 500) == 1)


@contextmanager
def paired_servers(folder: Path) -> Iterator[Pair]:
    """Run both inside the block."""
    folders = folder / "primary", folder / "replica"
    for one in folders:
        one.mkdir()
    diskless = {"repl-diskless-sync-delay": "0"}
    with (
        scratch_server(folders[0], appendonly="yes", **diskless) as primary,
        scratch_server(folders[1], replicaof=f"127.0.0.1 {primary.port}", **diskless) as replica,
    ):
        pair = Pair(primary, replica)
        pair.wait_until_level()
        yield pair


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the replica does not catch up"
        time.sleep(0.01)
