"""What a durable job costs beside stock Celery: three-agent jobs per CPU second.

    python -m tests.benchmarks.jobs [--jobs 200] [--alone 30] [--rounds 7]

A job of ours is routed (by the name that it asks for) and handed over twice; its model answers at once. Its baselines
are chains of three tasks that do nothing but ``send_task`` the next one (no state, no recovery), in Celery's threads
pool: ``stock``, as Celery comes, its sender waiting for the last result; ``tuned``, the same with the settings that we
give Celery; ``deaf``, tuned and without results: the last task pushes a word to a list. What counts is the CPU of
everybody: of this process, which submits and waits for the ends, of dispatcher, worker and server. Each contender has a
server of its own; rounds take turns, so that all have the same neighbours, and a ratio is the median of the rounds'
ratios. First all jobs of a round are submitted at once, then some one at a time.
"""

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from celery import Celery

from ekiden.dispatcher.client import Client
from ekiden.shared.processes.children import start_child
from ekiden.shared.stores.redis import as_any, connect
from tests.benchmarks.bare_chains import ENDS, bare_app, deaf_app, tuned_app
from tests.benchmarks.inflight import CHAIN, agent_file, cpu_s, script
from tests.benchmarks.stack import Stack, stack
from tests.integration.celery_worker import kombu_url

PARTS = ("client", "dispatcher", "worker", "server")
WITHIN_S = 120
_BASELINES = {"stock": bare_app, "tuned": tuned_app, "deaf": deaf_app}
_CELERY = "threads pool of 2"


class Contender(Protocol):
    """Who runs jobs."""

    pids: dict[str, int]
    """Its processes by what they are; this one is not among them."""

    async def at_once(self, jobs: int) -> None:
        """Submit all, and wait for their ends."""
        ...

    async def alone(self) -> None:
        """Submit one, and wait for its end."""
        ...


@dataclass(frozen=True)
class Round:
    """What a job cost in one round."""

    cpu_ms: dict[str, float]
    """By part."""
    took_ms: float = 0.0
    """From its submission to the news of its end, at the median."""

    @property
    def total_ms(self) -> float:
        """CPU of all."""
        return sum(self.cpu_ms.values())


class Ekiden:
    """Ours."""

    def __init__(self, client: Client, pids: dict[str, int]) -> None:
        self._client = client
        self.pids = pids

    async def at_once(self, jobs: int) -> None:
        """See ``Contender``."""
        await asyncio.gather(*(self.alone() for _ in range(jobs)))

    async def alone(self) -> None:
        """See ``Contender``."""
        view = await self._client.wait(await self._client.submit("please look", agent=CHAIN[0]))
        assert view.result == "done", view


class Bare:
    """Celery's tasks, with results."""

    def __init__(self, sender: Celery, pids: dict[str, int]) -> None:
        self._sender = sender
        self.pids = pids

    async def at_once(self, jobs: int) -> None:
        """See ``Contender``."""
        ends = [self._sender.AsyncResult(uuid.uuid4().hex) for _ in range(jobs)]
        for end in ends:
            self._sender.send_task("hop", [len(CHAIN) - 1, end.id], queue="bare")
        for end in ends:
            end.get(timeout=WITHIN_S)

    async def alone(self) -> None:
        """See ``Contender``."""
        await self.at_once(1)


class Deaf(Bare):
    """Celery's tasks, without."""

    def __init__(self, sender: Celery, pids: dict[str, int]) -> None:
        super().__init__(sender, pids)
        self._ends = sender.connection_for_write().default_channel.client

    async def at_once(self, jobs: int) -> None:
        """See ``Contender``."""
        for _ in range(jobs):
            self._sender.send_task("hop", [len(CHAIN) - 1], queue="bare")
        left = jobs
        while left:
            heard: Any = self._ends.blmpop(WITHIN_S, 1, ENDS, direction="LEFT", count=left)
            if heard is None:
                raise TimeoutError(f"{left} of {jobs} chains have not ended within {WITHIN_S} s")
            left -= len(heard[1])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200, help="submitted at once in a round")
    parser.add_argument("--alone", type=int, default=30, help="run one after another in a round")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    agents = {name: agent_file(index) for index, name in enumerate(CHAIN)}
    with ExitStack() as stay:
        ours = stay.enter_context(stack(agents, script(0.0)))
        baselines = {name: stay.enter_context(bare(name)) for name in _BASELINES}
        together, alone = asyncio.run(measured(ours, baselines, given))
    print(f"load {os.getloadavg()[0]:.1f}; medians of {given.rounds} rounds; Celery: {_CELERY}")
    print_table(f"{given.jobs} jobs at once", together)
    print_table(f"{given.alone} jobs one at a time", alone)


@contextmanager
def bare(kind: str) -> Iterator[tuple[Stack, int]]:
    """A server, and a worker of Celery's own."""
    with stack({}, "agents: {}\n") as made:
        words = (
            f"-m tests.celery_program -A tests.benchmarks.bare_chains:{kind} worker -l WARNING -P threads -c 2 -Q bare"
        )
        env = {**os.environ, "EKIDEN_REDIS_URL": made.url}
        worker = start_child([sys.executable, *words.split()], env=env, log=made.folder / "bare.log")
        made.children.append(worker)
        yield made, worker.pid


async def measured(
    ours: Stack, baselines: dict[str, tuple[Stack, int]], given: argparse.Namespace
) -> tuple[dict[str, list[Round]], dict[str, list[Round]]]:
    """Return every contender's rounds, at once and one at a time."""
    dispatcher = ours.start("dispatcher", concurrency=given.jobs)
    worker = ours.start("workers", *(f"ekiden.agent.{name}" for name in CHAIN), concurrency=given.jobs)
    contenders = {name: await baseline(name, *found) for name, found in baselines.items()}
    together, alone = defaultdict[str, list[Round]](list), defaultdict[str, list[Round]](list)
    async with Client(ours.url) as client:
        await ours.ready(client, 2)
        pids = {"dispatcher": dispatcher.pid, "worker": worker.pid, "server": await client.server_pid()}
        contenders["Ekiden"] = Ekiden(client, pids)
        held = await server_bytes(ours.url)
        for turn in range(given.rounds + 1):
            for name, contender in contenders.items():
                many, single = await round_of(contender, given.jobs), await singles_of(contender, given.alone)
                if turn:  # the first one warms up
                    together[name].append(many)
                    alone[name].append(single)
        finished = (given.rounds + 1) * (given.jobs + given.alone)
        print(f"the server's memory: {(await server_bytes(ours.url) - held) / finished / 1024:.1f} KB a finished job")
    return together, alone


async def server_bytes(url: str) -> int:
    """Return how much memory a server uses."""
    client = connect(url)
    found: dict[str, Any] = await as_any(client.info("memory"))
    await client.aclose()
    return int(found["used_memory"])


async def baseline(kind: str, made: Stack, worker: int) -> Contender:
    """Return one of Celery's contenders."""
    async with Client(made.url) as client:
        pids = {"worker": worker, "server": await client.server_pid()}
    return (Deaf if kind == "deaf" else Bare)(_BASELINES[kind](kombu_url(made.url)), pids)


async def round_of(contender: Contender, jobs: int) -> Round:
    """Run so many at once."""
    before = cpu_of(contender)
    await contender.at_once(jobs)
    return Round(per_job(contender, before, jobs))


async def singles_of(contender: Contender, jobs: int) -> Round:
    """Run so many one after another."""
    before, took = cpu_of(contender), []
    for _ in range(jobs):
        began = time.perf_counter()
        await contender.alone()
        took.append((time.perf_counter() - began) * 1000)
    return Round(per_job(contender, before, jobs), median(took))


def cpu_of(contender: Contender) -> dict[str, float]:
    """CPU seconds so far, by part."""
    return {"client": time.process_time(), **{part: cpu_s(pid) for part, pid in contender.pids.items()}}


def per_job(contender: Contender, before: dict[str, float], jobs: int) -> dict[str, float]:
    """CPU of a job in ms since ``before``, by part."""
    return {part: (now - before[part]) * 1000 / jobs for part, now in cpu_of(contender).items()}


def print_table(title: str, rounds: dict[str, list[Round]]) -> None:
    """Print what a job costs, part by part, and how ours compares."""
    print(f"\n{title}: ms of CPU a job")
    print(f"{'':8}" + "".join(f"{part:>12}" for part in (*PARTS, "total", "jobs/CPU s", "p50 ms")))
    for name, figures in rounds.items():
        parts = [median(one.cpu_ms.get(part, 0.0) for one in figures) for part in PARTS]
        total, took = median(one.total_ms for one in figures), median(one.took_ms for one in figures)
        print(f"{name:8}" + "".join(f"{value:12.2f}" for value in (*parts, total, 1000 / total, took)))
    for name in _BASELINES:
        cpu = ratios([one.total_ms for one in rounds[name]], [one.total_ms for one in rounds["Ekiden"]])
        print(f"jobs per CPU second, Ekiden / {name}: {median(cpu):.2f} (rounds from {min(cpu):.2f} to {max(cpu):.2f})")
        if all(one.took_ms for one in rounds[name]):
            times = ratios([one.took_ms for one in rounds["Ekiden"]], [one.took_ms for one in rounds[name]])
            print(f"latency, Ekiden / {name}: {median(times):.2f}")


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Return the rounds' ratios."""
    return [one / other for one, other in zip(above, below, strict=True)]


if __name__ == "__main__":
    main()
