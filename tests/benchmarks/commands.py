"""What it costs to run a command under the reaper.

    python -m tests.benchmarks.commands [--calls 300]

The same command is run by ``asyncio.create_subprocess_exec`` alone and as the tool ``bash`` runs it, in turns, in one
process; one after the other, then ten at a time.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ekiden.shared.tool_processes import prepare
from ekiden.workers.tools.builtin.subprocesses import run_command

COMMAND = ["/bin/sh", "-c", "echo done"]
AT_ONCE = 10


def main() -> None:
    """Print the cost of a call either way, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    asyncio.run(measure(parser.parse_args().calls))


async def measure(calls: int) -> None:
    """Run ``calls`` commands of either kind, in turns."""
    prepare()
    for width in (1, AT_ONCE):
        await asyncio.gather(bare(), reaped())
        took: dict[str, list[float]] = {"bare": [], "reaped": []}
        for _ in range(calls // width):
            for name, run in (("bare", bare), ("reaped", reaped)):
                took[name].append(await timed(run, width))
        ms = {name: statistics.median(times) / width * 1000 for name, times in took.items()}
        ratio = ms["reaped"] / ms["bare"]
        print(f"{width:2} at a time: bare {ms['bare']:.2f} ms, reaped {ms['reaped']:.2f} ms a call, ratio {ratio:.2f}")


async def timed(run: Callable[[], Awaitable[None]], width: int) -> float:
    """Return how long ``width`` calls at once take, in seconds."""
    began = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(width)))
    return time.perf_counter() - began


async def bare() -> None:
    """Run the command with nobody to watch over what it leaves behind."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        cwd=Path.cwd(),
        env=os.environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = await process.communicate()
    assert output == b"done\n"


async def reaped() -> None:
    """Run it as ``bash`` does."""
    done = await run_command(COMMAND, cwd=Path.cwd(), env=os.environ, timeout_s=60, max_chars=1_000)
    assert done.output == "done\n"


if __name__ == "__main__":
    main()
