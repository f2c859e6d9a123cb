"""What it costs to run a command under the reaper, and in a sandbox.

    python -m tests.benchmarks.commands [--calls 300]

The same command is run by ``asyncio.create_subprocess_exec`` alone, under the reaper, and in each sandbox as the tool
``bash`` runs it there, in turns, in one process; one after the other, then ten at a time.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.processes.tools import prepare
from ekiden.shared.settings.model import Settings
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.subprocesses import run_command, run_confined

COMMAND = ["/bin/sh", "-c", "echo done"]
AT_ONCE = 10
Way = Callable[[], Awaitable[None]]


def main() -> None:
    """Print the cost of a call either way, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    asyncio.run(measure(parser.parse_args().calls))


async def measure(calls: int) -> None:
    """Run ``calls`` commands of every kind, in turns."""
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Way] = {"bare": bare, "reaped": reaped}
        for name in ("off", "landlock", "bubblewrap"):
            if (context := await context_of(name, Path(folder))) is not None:
                ways[f"sandbox {name}"] = partial(confined, context)
        for width in (1, AT_ONCE):
            await asyncio.gather(*(run() for run in ways.values()))
            took: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(calls // width):
                for name, run in ways.items():
                    took[name].append(await timed(run, width))
            ms = {name: statistics.median(times) / width * 1000 for name, times in took.items()}
            for name, each in ms.items():
                print(f"{width:2} at a time: {name:18} {each:6.2f} ms a call, {each / ms['bare']:.2f} times a bare one")


async def context_of(name: str, folder: Path) -> ToolContext | None:
    """Return what a call of a tool in this sandbox knows; None where the machine has none of that name."""
    env = for_tools(os.environ)
    try:
        sandbox = await choose(Settings(tools_sandbox=name), env)
    except ConfigurationError as error:
        print(error)
        return None
    return ToolContext("job", 1, "agent", "call", folder, folder, env=env, sandbox=sandbox)


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
    """Run it under the reaper, with nothing that confines it."""
    done = await run_command(COMMAND, cwd=Path.cwd(), env=os.environ, timeout_s=60, max_chars=1_000)
    assert done.output == "done\n"


async def confined(context: ToolContext) -> None:
    """Run it in a sandbox, as ``bash`` does."""
    done = await run_confined(COMMAND, context, env=context.env, timeout_s=60, max_chars=1_000)
    assert done.output == "done\n", done


if __name__ == "__main__":
    main()
