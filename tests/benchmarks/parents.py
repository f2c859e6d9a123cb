"""What parents cost that wait for their children.

    python -m tests.benchmarks.parents [--parents 200] [--children 3] [--work-s 20.0]

Two worker processes: one serves the parents with room for ONE leg, the other the children. Every parent delegates to
its children and waits. While all of them wait, the parents' worker is looked at: legs that it holds, and its memory
against that of the same worker before the first parent came.
"""

import argparse
import asyncio
import time

import psutil

from ekiden.dispatcher.client import Client
from tests.benchmarks.stack import Stack, stack

MIB = 1024 * 1024


def main() -> None:
    """Print slots, memory and time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parents", type=int, default=200)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--work-s", type=float, default=20.0)
    options = parser.parse_args()
    with stack(TEAM, script(options.children, options.work_s)) as made:
        asyncio.run(measure(made, options.parents, options.children))


TEAM = {
    "lead": "---\nname: lead\ndescription: Leads.\nsubagents: [scout]\n---\nLead.\n",
    "scout": "---\nname: scout\ndescription: Looks.\n---\nLook.\n",
}


def script(children: int, work_s: float) -> str:
    """A lead that delegates once, and a scout that takes its time."""
    calls = ", ".join(f"{{tool: delegate_to_scout, args: {{objective: part {n}}}}}" for n in range(children))
    return (
        "agents:\n"
        "  lead:\n"
        "  - {name: all, when: {turn: 2}, say: all is done}\n"
        f"  - {{name: ask, call: [{calls}]}}\n"
        "  scout:\n"
        f"  - {{name: look, delay_s: {work_s}, say: found it}}\n"
    )


async def measure(made: Stack, parents: int, children: int) -> None:
    """Let ``parents`` jobs wait, look at their worker, see them through."""
    made.start("dispatcher", concurrency=parents)
    lead = made.start("workers", "ekiden.agent.lead", concurrency=1)
    made.start("workers", "ekiden.agent.scout", concurrency=parents * children)
    async with Client(made.url) as client:
        await made.ready(client, 3)
        await client.wait(await client.submit("warm up", agent="lead"))
        before = memory(lead.pid)
        began = time.monotonic()
        ids = [await client.submit("go", agent="lead") for _ in range(parents)]
        waiting = await all_wait(client, ids)
        during, held = memory(lead.pid), await legs_held(client)
        views = await asyncio.gather(*(client.wait(job) for job in ids))
        wall = time.monotonic() - began
    done = sum(view.status == "done" for view in views)
    print(f"{waiting} of {parents} parents waited at once for {children} children each; one worker, room for one leg")
    print(f"slots held by waiting parents: {held}")
    print(f"memory of their worker: {before:.1f} MiB before, {during:.1f} MiB while they waited")
    print(f"{done} of {parents} done, {wall:.1f} s")


async def all_wait(client: Client, ids: list[str]) -> int:
    """Wait until as many parents as possible are suspended at the same time; return how many."""
    most = 0
    while True:
        states = [(await client.job(job)).status for job in ids]
        count = states.count("suspended")
        if count == len(ids) or count < most or states.count("done"):
            return max(count, most)
        most = count


async def legs_held(client: Client) -> int:
    """How many legs the parents' worker holds, by its own account, which may be some seconds old."""
    held = 0
    for _ in range(20):
        held = sum(pool.in_flight for pool in await client.pools() if "ekiden.agent.lead" in pool.queues)
        if not held:
            break
        await asyncio.sleep(0.5)
    return held


def memory(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    return float(psutil.Process(pid).memory_info().rss) / MIB


if __name__ == "__main__":
    main()
