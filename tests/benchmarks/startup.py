"""How long a person waits before anything happens.

    python -m tests.benchmarks.startup [--runs 7]

Each round times every step once, in new processes, beside two yardsticks: an interpreter that does nothing, and one
that imports Celery. Machines differ, and so do their neighbours: read the ratios, best those of CPU. All is compiled
before it is timed, as where a package is installed: a program that may keep no bytecode compiles itself each time.
"""

import argparse
import asyncio
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ekiden.dispatcher.client import Client
from tests.benchmarks.stack import Stack, stack

PYTHON, CELERY = "python -c pass", "python -c 'from celery import Celery'"
ROOT = Path(__file__).parents[2]
_WITHIN_S = 60.0


def main() -> None:
    """Print the medians and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="rounds; their medians are printed")
    runs = parser.parse_args().runs
    script = "agents:\n  '*':\n  - {name: end, say: done}\n"
    with tempfile.TemporaryDirectory(prefix="ekiden-bench-") as folder, stack({}, script) as made:
        medians = measured(steps(made, Path(folder)), runs)
    print(f"medians of {runs} runs, wall time and CPU; x: times {PYTHON}; c: times {CELERY}")
    for name, cost in medians.items():
        print(f"{name:<38} {_row(cost.wall_s, medians, 'wall_s')} | {_row(cost.cpu_s, medians, 'cpu_s')}")


class Cost(NamedTuple):
    """What a program took; ``cpu_s`` NaN: nobody knows."""

    wall_s: float
    cpu_s: float


def _row(seconds: float, medians: dict[str, Cost], what: str) -> str:
    nothing, celery = (getattr(medians[name], what) for name in (PYTHON, CELERY))
    return f"{seconds:6.3f} s {seconds / nothing:6.1f} x {seconds / celery:6.2f} c"


def steps(made: Stack, folder: Path) -> dict[str, Callable[[], Cost]]:
    """What is timed, by name."""
    env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    env |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}

    def timed(*words: str) -> Callable[[], Cost]:
        return lambda: cost_of([sys.executable, *words], folder, env)

    def chain() -> Cost:
        with tempfile.TemporaryDirectory(dir=folder) as data:
            return cost_of(
                [sys.executable, "-m", "ekiden.dispatcher", "run", "--demo", "--data-dir", data], folder, env
            )

    return {
        PYTHON: timed("-c", "pass"),
        CELERY: timed("-c", "from celery import Celery"),  # `import celery` alone imports next to nothing
        "ekiden --help": timed("-m", "ekiden.dispatcher", "--help"),
        "ekiden submit": timed("-m", "ekiden.dispatcher", "submit", "x", "--redis", made.url),
        "ekiden route": timed("-m", "ekiden.dispatcher", "route", "ask", "the tests of this project fail"),
        "ekiden worker, until announced": lambda: announced_after(made, folder, env),
        "ekiden run --demo, from nothing": chain,
    }


def measured(timed: dict[str, Callable[[], Cost]], runs: int) -> dict[str, Cost]:
    """Return each step's medians, without the first; the steps take turns, so that all have the same neighbours."""
    costs: dict[str, list[Cost]] = defaultdict(list)
    for _ in range(runs + 1):
        for name, step in timed.items():
            costs[name].append(step())
    return {name: Cost(*map(median, zip(*found[1:], strict=True))) for name, found in costs.items()}


def cost_of(command: list[str], folder: Path, env: dict[str, str]) -> Cost:
    """Run a command to its end; what it started and left counts in no CPU time."""
    began, cpu_began = time.perf_counter(), _cpu_s()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=_WITHIN_S, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
    return Cost(took, _cpu_s() - cpu_began)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def announced_after(made: Stack, folder: Path, env: dict[str, str]) -> Cost:
    """Start a worker, and wait until whoever asks the server hears of it."""
    command = [sys.executable, "-m", "ekiden.dispatcher", "worker", "--redis", made.url]
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        try:
            asyncio.run(_is_there(made.url, worker.pid))
            return Cost(time.perf_counter() - began, math.nan)
        finally:
            worker.terminate()


async def _is_there(url: str, pid: int) -> None:
    async with asyncio.timeout(_WITHIN_S), Client(url) as client:
        while pid not in {pool.pid for pool in await client.pools()}:  # noqa: ASYNC110 - no event: it is another process
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    main()
