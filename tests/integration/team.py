"""Supervised pool processes for tests of durability, and the world outside that counts their effects."""

import asyncio
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

from ekiden.dispatcher.client import Client
from ekiden.shared.processes.children import ChildProcess
from ekiden.shared.stores.views import JobView
from tests.benchmarks.stack import Stack

T = TypeVar("T")

APP = "tests.integration.durable_app"


class Effects(ThreadingHTTPServer):
    """The world outside: counts what tools and models do to it."""

    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Count)
        self._counting = threading.Lock()
        self._requests: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def count(self, kind: str, pid: int, key: str) -> None:
        """Count one request."""
        with self._counting:
            self._requests[kind, key].append((time.time(), pid))

    def of(self, kind: str, job: str) -> dict[str, int]:
        """How often each key of this kind was asked for, for one job."""
        return {key: len(asked) for key, asked in self.requests(kind, job).items()}

    def requests(self, kind: str, job: str) -> dict[str, list[tuple[float, int]]]:
        """When (seconds since the epoch) and by which process each key of this kind was asked for, for one job."""
        with self._counting:
            found = [(key, list(asked)) for (what, key), asked in self._requests.items() if what == kind]
        return {key: asked for key, asked in found if key.startswith(f"{job}:")}


class _Count(BaseHTTPRequestHandler):
    server: Effects

    def do_POST(self) -> None:
        _, kind, pid, key = self.path.split("/", 3)
        self.server.count(kind, int(pid), key)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextmanager
def counting() -> Iterator[Effects]:
    """Count effects inside the block."""
    effects = Effects()
    threading.Thread(target=effects.serve_forever, daemon=True).start()
    try:
        yield effects
    finally:
        effects.shutdown()
        effects.server_close()


class Team:
    """Pools that come back when they die, as under any supervisor; ``with`` it."""

    def __init__(self, url: str, folder: Path, agents: Mapping[str, str], script: str, **environment: object) -> None:
        for name in ("agents", "scripts"):
            (folder / name).mkdir(exist_ok=True)
        self.stack = Stack(url, folder, dict(agents), script)
        self.url = url
        self.folder = folder
        self._environment = {name: str(value) for name, value in environment.items()}
        self._recipes: dict[str, Callable[[], ChildProcess]] = {}
        self._pools: dict[str, ChildProcess] = {}
        self._stopping = threading.Event()
        self._changing = threading.Lock()
        self.deaths: Counter[str] = Counter()
        self._watch = threading.Thread(target=self._supervise)

    def __enter__(self) -> "Team":
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._watch.join()
        for child in self.stack.children:
            child.stop(0.0)

    def start(
        self, name: str, kind: str, *queues: str, env: Mapping[str, str] | None = None, **settings: object
    ) -> int:
        """Start a pool ``name`` and keep it running; return the pid of its first process."""

        def start() -> ChildProcess:
            before = dict(os.environ)
            os.environ.update({**self._environment, **(env or {})})
            try:
                return self.stack.start(kind, *queues, module=APP, **settings)
            finally:
                os.environ.clear()
                os.environ.update(before)

        with self._changing:
            self._recipes[name] = start
            self._pools[name] = start()
            return self._pools[name].pid

    def let_go(self, name: str) -> ChildProcess:
        """Stop supervising a pool; return its process."""
        with self._changing:
            del self._recipes[name]
            return self._pools[name]

    def pid(self, name: str) -> int:
        """The pid of the pool's process."""
        return self._pools[name].pid

    def names(self) -> list[str]:
        """The supervised pools."""
        return list(self._recipes)

    def _supervise(self) -> None:
        while not self._stopping.wait(0.05):
            with self._changing:
                for name, start in self._recipes.items():
                    if self._pools[name].poll() is not None:
                        self.deaths[name] += 1
                        self._pools[name] = start()

    def logs(self, name: str = "") -> str:
        """What the pools have written; ``name``: those of one kind."""
        paths = sorted(self.folder.glob(f"{name}*.log"), key=lambda path: path.stat().st_mtime)
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Ask through a client of its own."""

        async def whole() -> T:
            async with Client(self.url) as client:
                return await question(client)

        return asyncio.run(whole())

    def ready(self, pools: int) -> None:
        """Wait until as many pools have announced themselves."""
        self.ask(lambda client: self.stack.ready(client, pools))


async def over(client: Client, jobs: list[str], within_s: float, logs: Callable[[], Any] = lambda: "") -> list[JobView]:
    """Wait until all ``jobs`` have ended."""
    deadline = time.monotonic() + within_s
    views: dict[str, JobView] = {}
    while len(views) < len(jobs):
        for job in jobs:
            if job not in views and (view := await client.job(job)).is_over:
                views[job] = view
        left = {job: (await client.job(job)).status for job in jobs if job not in views}
        assert time.monotonic() < deadline, (
            f"{len(left)} of {len(jobs)} not over: {dict(list(left.items())[:5])} {logs()}"
        )
        await asyncio.sleep(0.05)
    return [views[job] for job in jobs]
