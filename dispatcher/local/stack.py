"""The pools of ``ekiden run`` and ``ekiden up``: a dispatcher and a worker, as children of this process."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.local.broken_files import BrokenFiles
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.once import Once
from ekiden.shared.processes.children import ChildProcess, start_child, stop_all
from ekiden.shared.processes.grace_periods import stop_s
from ekiden.shared.settings.model import load_settings

__all__ = ["Stack"]

_LARGEST_LOG = 5_000_000
_LOOK_S = 0.1
_EACH_TIME = {
    "agents_published": "agent files changed, and are in force: {changes}",
    "agents_not_read": "agent files changed, and cannot be read: {error}",
    "agent_kept": "agent {agent} stays as it was, until {file} is mended",
    "agent_mended": "agent {agent} is as its file says again",
    "agent_held": "agent {agent} asks for more than you granted this folder: `ekiden trust` shows it, and grants it",
}
"""What happens again and again while files are edited."""


@dataclass
class Stack:
    """A dispatcher and a worker that serve every agent; they end with this process, however it ends.

    The dispatcher puts the folder's agents in force: on a server that several folders share, the last one counts.

    Attributes:
        url: The server that they serve.
        data_dir: Where they log: ``dispatcher.log``, ``worker.log``.
        root: The worker's workspace root; None: it has none, unless the settings say one.
        concurrency: Legs at a time in the worker; None: as the settings say.
        agents_dirs: Further folders of agent files, by the user's word.
        project: The folder that jobs work in, whose project's agents are read as far as it is trusted.
        packs: Which teams that come with Ekiden are there; None: as the settings say.
        env: What else stands in the environment of the pools.
        publishes: Whether agent files come into force; else those do that are.
    """

    url: str
    data_dir: Path
    root: Path | None
    concurrency: int | None = None
    agents_dirs: Sequence[Path] = ()
    project: Path | None = None
    packs: Sequence[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    publishes: bool = True
    children: dict[str, ChildProcess] = field(default_factory=dict)
    _told: Once = field(default_factory=Once, repr=False)
    _drain_s: float = field(default_factory=lambda: load_settings().drain_s or 0.0, repr=False)

    def __enter__(self) -> Self:
        try:
            for kind in ("dispatcher", "worker"):
                self.start(kind)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, kind: str) -> None:
        """Start the pool of this kind (again)."""
        log = self.data_dir / f"{kind}.log"
        if log.exists() and log.stat().st_size > _LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
        # -P: the current folder is a user's project, whose packages may be named like ours
        argv = [sys.executable, "-P", "-m", "ekiden.dispatcher", kind, *self._options(kind)]
        env = {**os.environ, "EKIDEN_REDIS_URL": self.url, "EKIDEN_DRAIN_S": str(self._drain_s), **self.env}
        env["EKIDEN_DATA_DIR"] = str(self.data_dir)
        if self.packs is not None:
            env["EKIDEN_PACKS"] = json.dumps(self.packs)
        self.children[kind] = start_child(argv, env=env, log=log)

    def stop(self) -> None:
        """End the pools; at once when the user does not want to wait."""
        children = list(self.children.values())
        try:
            stop_all(children, stop_s(self._drain_s))
        except KeyboardInterrupt:
            stop_all(children, 0.0)

    def ended(self) -> str | None:
        """Return the kind of a pool that has ended by itself; None when all run."""
        return next((kind for kind, child in self.children.items() if child.poll() is not None), None)

    def why_ended(self, kind: str) -> str:
        """Return what ended the pool of this kind: a signal, or the last thing that it wrote."""
        code = self.children[kind].poll() or 0
        if code < 0:
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        lines = [line for line in self.children[kind].tail(20).splitlines() if line.strip()]
        return lines[-1].strip().removeprefix("ekiden: ") if lines else "it wrote nothing"

    async def watch(self, look: Callable[[], None]) -> None:
        """Call ``look`` now and then; return never; raise ``ConfigurationError`` when a pool ends by itself."""
        while (kind := self.ended()) is None:
            look()
            await asyncio.sleep(_LOOK_S)
        raise ConfigurationError(f"the {kind} ended: {self.why_ended(kind)}")

    async def ready(self, client: Client) -> None:
        """Return when both pools have announced themselves; raise like ``watch`` when one has ended."""
        pids = {child.pid for child in self.children.values()}
        while not pids <= {pool.pid for pool in await client.pools()}:
            if (kind := self.ended()) is not None:
                raise ConfigurationError(f"the {kind} ended: {self.why_ended(kind)}")
            await asyncio.sleep(_LOOK_S)

    def tell_problems(self, tell: Callable[[str], None], *, in_full: bool = False) -> None:
        """Tell what becomes of agent files, and what is wrong with them and plug-ins, each thing once.

        What an earlier command has told of broken files is counted only, unless ``in_full`` is wanted.
        """
        broken: dict[str, str] = {}
        for line, entry in self._logged():
            if not (text := _problem(entry)):
                continue
            if entry.get("event") == "agent_file" and not in_full:
                broken[text] = re.sub(r":\d+$", "", str(entry.get("at")))
            elif self._told.first(line if entry.get("event") in _EACH_TIME else text):
                tell(text)
        for text in self._broken.news(broken):
            tell(text)

    def _logged(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the lines that the pools have logged, and what these say."""
        for line in (line for child in self.children.values() for line in child.tail(200).splitlines()):
            with contextlib.suppress(ValueError):
                if isinstance(entry := json.loads(line), dict):
                    yield line, entry

    @cached_property
    def _broken(self) -> BrokenFiles:
        return BrokenFiles(self.data_dir)

    def _options(self, kind: str) -> list[str]:
        if kind == "dispatcher":
            project = [] if self.project is None else ["--project", str(self.project)]
            return [
                *(["--publish"] if self.publishes else []),
                *project,
                *(part for folder in self.agents_dirs for part in ("--agents-dir", str(folder))),
            ]
        concurrency = [] if self.concurrency is None else ["--concurrency", str(self.concurrency)]
        root = [] if self.root is None else ["--workspace-root", str(self.root)]
        return [*root, *concurrency]


def _problem(entry: dict[str, Any]) -> str:
    """Return what a line of a pool's log says of agent files and plug-ins, if it says anything."""
    if entry.get("event") in _EACH_TIME:
        return _EACH_TIME[entry["event"]].format_map(entry)
    match entry.get("event"), entry.get("level"):
        case "agent_file", "error":
            return f"agent file {entry.get('at')}: {entry.get('problem')}"
        case "plugin", _:
            return f"plug-in not loaded: {entry.get('problem')}"
        case "catalog_not_published", _:
            return f"the agent files are not in force: {entry.get('error')}"
        case "catalog_differs", _:
            return f"the agent files are not in force ({entry.get('files')}): {entry.get('hint')}"
    return ""
