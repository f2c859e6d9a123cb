"""A server to be killed and a line to it to be cut, for tests of what workers do meanwhile."""

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from redis import Redis

from ekiden.shared.embedded import server_program
from ekiden.shared.stores.redis import as_any
from tests.integration.scratch import DEADLINE_S, free_port

Mode = Literal["pass", "hang", "refuse", "loading"]


class Server:
    """A server with an append-only file that can be killed and started again, also with less than it had.

    ``env`` goes into its environment, ``options`` to its command line.
    """

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None, **options: str) -> None:
        self._env = {**os.environ, **(env or {})}
        self.port = free_port()
        self._folder = folder
        given = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "yes", "dir": folder, **options}
        program = str(server_program())
        self._argv = [program, *(text for name, value in given.items() for text in (f"--{name}", str(value)))]
        self.start()

    def start(self, *options: str) -> None:
        """Start, and wait until it answers."""
        self.process = subprocess.Popen([*self._argv, *options], env=self._env, stdout=subprocess.DEVNULL)
        self.admin = Redis(port=self.port, decode_responses=True)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with contextlib.suppress(Exception):
                self.admin.ping()
                return
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def kill(self) -> None:
        """SIGKILL."""
        self.admin.close()
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def written(self) -> int:
        """How much is in its file now: where it can go back to. All that it has acknowledged is there.

        A server that is slow to sync its file acknowledges first and writes up to two seconds later.
        """
        deadline = time.monotonic() + DEADLINE_S
        while as_any(self.admin.info("persistence"))["aof_buffer_length"]:
            assert time.monotonic() < deadline, "the server does not write its file"
            time.sleep(0.01)
        return self._file().stat().st_size

    def go_back(self, written: int) -> None:
        """Come back from a crash of the host that lost what was written since; a torn command at the end is dropped."""
        self.kill()
        os.truncate(self._file(), written)
        self.start()

    def _file(self) -> Path:
        [path] = (self._folder / "appendonlydir").glob("*.incr.aof")
        return path


class Proxy:
    """Passes bytes on to a port, or does what lines and servers do when they fail."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode: Mode = "pass"
        self._passing = threading.Event()
        self._passing.set()
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, port: int) -> None:
        """Pass on to another port from now on; every connection breaks."""
        self._target = port
        self.drop()

    def be(self, mode: Mode) -> None:
        """Behave so from now on. Connections survive ``hang`` only."""
        self._mode = mode
        if mode == "hang":
            self._passing.clear()
            return
        if mode != "pass":
            self.drop()
        self._passing.set()

    def drop(self) -> None:
        """Break every connection."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open) // 2

    def close(self) -> None:
        """Stop."""
        self._listening.close()
        self._passing.set()
        self.drop()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError), one:
            self._passing.wait()
            if self._mode == "refuse":
                return
            if self._mode == "loading":
                while one.recv(65536) and self._mode == "loading":
                    one.sendall(b"-LOADING Valkey is loading the dataset in memory\r\n")
                return
            with socket.create_connection(("127.0.0.1", self._target)) as other:
                self._open |= {one, other}
                back = threading.Thread(target=self._pump, args=(other, one), daemon=True)
                back.start()
                self._pump(one, other)
                back.join()
                self._open -= {one, other}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._passing.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied_server(folder: Path) -> Iterator[tuple[Server, Proxy]]:
    """Run both inside the block."""
    server = Server(folder)
    proxy = Proxy(server.port)
    try:
        yield server, proxy
    finally:
        proxy.close()
        server.kill()
