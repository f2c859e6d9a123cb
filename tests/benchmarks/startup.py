"""How long a person waits before anything happens.

    python -m tests.benchmarks.startup [--runs 7]

Each round times every step once, in new processes, beside two yardsticks: an interpreter that does nothing, and one
that imports Celery. Machines differ, and so do their neighbours: read the ratios.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

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
    print(f"medians of {runs} runs; x: times {PYTHON}; c: times {CELERY}")
    for name, seconds in medians.items():
        print(f"{name:<38} {seconds:6.3f} s {seconds / medians[PYTHON]:7.1f} x {seconds / medians[CELERY]:6.2f} c")


def steps(made: Stack, folder: Path) -> dict[str, Callable[[], float]]:
    """What is timed, by name; each returns seconds."""
    env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}

    def timed(*words: str) -> Callable[[], float]:
        return lambda: seconds_of([sys.executable, *words], folder, env)

    def chain() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as data:
            return seconds_of(
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


def measured(timed: dict[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Return each step's median; the steps take turns, so that all have the same neighbours."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        for name, step in timed.items():
            times[name].append(step())
    return {name: median(values) for name, values in times.items()}


def seconds_of(command: list[str], folder: Path, env: dict[str, str]) -> float:
    """Run a command to its end."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=_WITHIN_S, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
    return took


def announced_after(made: Stack, folder: Path, env: dict[str, str]) -> float:
    """Start a worker, and wait until whoever asks the server hears of it."""
    command = [sys.executable, "-m", "ekiden.dispatcher", "worker", "--redis", made.url]
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        try:
            asyncio.run(_is_there(made.url, worker.pid))
            return time.perf_counter() - began
        finally:
            worker.terminate()


async def _is_there(url: str, pid: int) -> None:
    async with asyncio.timeout(_WITHIN_S), Client(url) as client:
        while pid not in {pool.pid for pool in await client.pools()}:  # noqa: ASYNC110 - no event: it is another process
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    main()
