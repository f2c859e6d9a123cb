"""A server and real pool processes for benchmarks, in a folder of their own."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.processes.children import ChildProcess, start_child

__all__ = ["Stack", "stack"]


class Stack:
    """Starts pools on one server; they end with the block."""

    def __init__(self, url: str, folder: Path, agents: dict[str, str], script: str) -> None:
        self.url = url
        self.folder = folder
        for name, text in agents.items():
            (folder / "agents" / f"{name}.md").write_text(text)
        (folder / "scripts" / "script.yaml").write_text(script)
        self.children: list[ChildProcess] = []

    def start(self, kind: str, *queues: str, module: str = "", **settings: object) -> ChildProcess:
        """Start a pool process: ``dispatcher`` or ``workers``, or an app ``kind`` of a ``module`` of the tests.

        ``settings`` are Ekiden's, by name.
        """
        env = {
            **os.environ,
            "EKIDEN_REDIS_URL": self.url,
            "EKIDEN_AGENTS_DIR": f'["{self.folder / "agents"}"]',
            "EKIDEN_SCRIPTS_DIR": str(self.folder / "scripts"),
            "HOME": str(self.folder),
            **{f"EKIDEN_{name.upper()}": str(value) for name, value in settings.items()},
        }
        served = ["-Q", ",".join(queues)] if queues else []
        node = ["-n", f"{kind}{len(self.children)}@bench"]
        command = [
            sys.executable,
            "-m",
            "tests.celery_program",
            "-A",
            f"{module}:{kind}" if module else f"{kind}.app",
            "worker",
            "-l",
            "WARNING",
            *node,
            *served,
        ]
        child = start_child(command, env=env, log=self.folder / f"{kind}{len(self.children)}.log")
        self.children.append(child)
        return child

    async def ready(self, client: Client, pools: int, within_s: float = 30.0) -> None:
        """Wait until as many pools have announced themselves."""
        deadline = time.monotonic() + within_s
        while len(await client.pools()) < pools:
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(child.tail() for child in self.children))


@contextmanager
def stack(agents: dict[str, str], script: str) -> Iterator[Stack]:
    """Give a stack with these agent files and this script for the scripted model."""
    with ExitStack() as stay:
        folder = Path(stay.enter_context(tempfile.TemporaryDirectory(prefix="ekiden-bench-")))
        for name in ("agents", "scripts"):
            (folder / name).mkdir()
        attachment = stay.enter_context(attach(folder / "data"))
        made = Stack(attachment.url, folder, agents, script)
        try:
            yield made
        finally:
            for child in made.children:
                child.stop(grace_s=0.0)
