"""What a step of a graph costs beside a handoff, and a late round of a loop beside an early one.

    python -m tests.benchmarks.graph [--jobs 40] [--rounds 5]

Chains of two and of eight agents, handed over and as graphs, and loops of 10, 40 and 50 rounds, in turn, through one
worker process with the scripted model. What one more step costs is the slope between the short and the long chain;
CPU of worker and server, medians of the rounds.
"""

import argparse
import asyncio
import json
from itertools import pairwise
from statistics import median
from typing import Any

from ekiden.dispatcher.client import Client
from tests.benchmarks.inflight import cpu_s
from tests.benchmarks.stack import Stack, stack

SHORT, LONG = 2, 8
FEW, NEARLY, MANY = 10, 40, 50


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    agents, script = team()
    with stack(agents, script) as made:
        asyncio.run(measure(made, list(agents), options.jobs, options.rounds))


def team() -> tuple[dict[str, str], str]:
    """The files of all agents, and what they say."""
    runners = [f"r{number}" for number in range(LONG)]
    files = {name: agent(name) for name in (*runners, "again")}
    rules: dict[str, Any] = {name: [{"name": "say", "say": "done"}] for name in files}
    for count in (SHORT, LONG):
        chain = [f"h{count}-{number}" for number in range(count)]
        for here, to in pairwise(chain):
            files[here] = agent(here, handoffs=[{"to": to, "include_context": False}], limits={"max_handoff_depth": 20})
            call: dict[str, Any] = {"tool": f"transfer_to_{to.replace('-', '_')}", "args": {"reason": "go on"}}
            rules[here] = [{"name": "go", "call": [call]}]
        files[chain[-1]] = agent(chain[-1])
        rules[chain[-1]] = [{"name": "say", "say": "done"}]
        files[f"g{count}"] = agent(f"g{count}", orchestrate="sequential", agents=runners[:count])
    for count in (FEW, NEARLY, MANY):
        files[f"l{count}"] = agent(f"l{count}", orchestrate="loop", agents=["again"], max_rounds=count)
    return files, json.dumps({"agents": rules})


def agent(name: str, **fields: object) -> str:
    """An agent's file."""
    front = {"name": name, "description": f"Runs {name}.", "tools": [], **fields}
    body = "" if "orchestrate" in fields else "Run.\n"
    return f"---\n{json.dumps(front)}\n---\n{body}"


async def measure(made: Stack, agents: list[str], jobs: int, rounds: int) -> None:
    """Run everything in turn and print the figures."""
    made.start("dispatcher", concurrency=jobs)
    worker = made.start("workers", *(f"ekiden.agent.{name}" for name in agents), concurrency=jobs)
    async with Client(made.url) as client:
        await made.ready(client, 2)
        server = await client.server_pid()
        first = {
            f"{kind}{count}": f"h{count}-0" if kind == "h" else f"{kind}{count}" for kind in "hg" for count in (2, 8)
        }
        first |= {f"l{count}": f"l{count}" for count in (FEW, NEARLY, MANY)}

        async def cost_ms(name: str, count: int) -> float:
            before = cpu_s(worker.pid) + cpu_s(server)
            ids = await asyncio.gather(*(client.submit("go", agent=first[name]) for _ in range(count)))
            ended = await asyncio.gather(*(client.wait(job) for job in ids))
            assert {view.status for view in ended} == {"done"}, [view.result for view in ended]
            return (cpu_s(worker.pid) + cpu_s(server) - before) / count * 1000

        for name in first:
            await cost_ms(name, 2)
        found = [
            {name: await cost_ms(name, jobs if name[0] != "l" else max(1, jobs // 8)) for name in first}
            for _ in range(rounds)
        ]
    steps = {
        kind: median((one[f"{kind}{LONG}"] - one[f"{kind}{SHORT}"]) / (LONG - SHORT) for one in found) for kind in "hg"
    }
    ratios = sorted((one[f"g{LONG}"] - one[f"g{SHORT}"]) / (one[f"h{LONG}"] - one[f"h{SHORT}"]) for one in found)
    print(f"a handoff {steps['h']:.2f} ms, a step of a graph {steps['g']:.2f} ms of CPU, server included")
    print(f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    early = median(one[f"l{FEW}"] / FEW for one in found)
    late = median((one[f"l{MANY}"] - one[f"l{NEARLY}"]) / (MANY - NEARLY) for one in found)
    print(f"a round of a loop: {early:.2f} ms of the first {FEW}, {late:.2f} ms of the rounds {NEARLY + 1} to {MANY}")


if __name__ == "__main__":
    main()
