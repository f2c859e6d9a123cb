"""Servers of a test's own: with other options than the shared one, or to be frozen and killed."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ekiden.shared.embedded import server_program
from tests.warm import end_with_parent

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Scratch:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    path: Path

    @property
    def url(self) -> str:
        """Its address, by TCP."""
        return f"redis://127.0.0.1:{self.port}/0"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def scratch_server(folder: Path, **options: str) -> Iterator[Scratch]:
    """Run a server inside the block."""
    port, path = free_port(), folder / "s.sock"
    given = {"port": port, "bind": "127.0.0.1", "unixsocket": path, "save": "", "dir": folder, **options}
    argv = [str(server_program()), *(text for name, value in given.items() for text in (f"--{name}", str(value)))]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, preexec_fn=end_with_parent)  # noqa: PLW1509
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not path.exists():
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)
        yield Scratch(process, port, path)
    finally:
        process.kill()
        process.wait(DEADLINE_S)
