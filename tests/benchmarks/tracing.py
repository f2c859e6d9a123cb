"""What tracing costs: the CPU of a hop with tracing, without it, and how they compare.

    python -m tests.benchmarks.tracing [--jobs 100] [--rounds 11] [--no-metrics] [--null]

Chains of three hops behind a routing. What counts is the CPU (not the time, which is the neighbours') of all that runs
the legs: dispatcher, worker and server, until the last span has reached the collector; every one has to. The collector
is in this process, whose CPU does not count, like the client's. An untraced and a traced stack run at the same time, so
that what else the machine does costs them the same, and the ratio is the median of the rounds' ratios. ``--null``
traces neither: what is left is the benchmark's own noise.
"""

import argparse
import asyncio
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from ekiden.dispatcher.client import Client
from tests.benchmarks.inflight import CHAIN, agent_file, cpu_s, script
from tests.benchmarks.stack import Stack, stack
from tests.doubles.otlp import OtlpReceiver

LEGS = 1 + len(CHAIN)
SETTLE_S = 1.5
"""After this the last spans have left; the untraced stack is given it as well."""
_SPANS_ALONE = {"OTEL_METRICS_EXPORTER": "none"}


def main() -> None:
    """Print both and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-metrics", action="store_true", help="Spans alone.")
    parser.add_argument("--null", action="store_true", help="Trace neither.")
    given = parser.parse_args()
    with OtlpReceiver() as receiver:
        traced_by = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **(_SPANS_ALONE if given.no_metrics else {})}
        rounds = asyncio.run(measured(receiver, {} if given.null else traced_by, given.rounds, given.jobs))
    for name, figures in zip(("untraced", "traced"), zip(*rounds, strict=True), strict=True):
        print(f"{name}: {statistics.median(figures) * 1000:.2f} ms CPU a hop")
    print(f"{len(receiver.spans) / (given.jobs * LEGS * (given.rounds + 1)):.1f} spans a hop reached the collector")
    ratios = sorted(traced / untraced for untraced, traced in rounds)
    print(f"ratio {statistics.median(ratios):.3f} (rounds from {ratios[0]:.2f} to {ratios[-1]:.2f})")


async def measured(
    receiver: OtlpReceiver, traced_by: dict[str, str], rounds: int, jobs: int
) -> list[tuple[float, float]]:
    """Return the CPU seconds of a hop, untraced and traced, for each round."""
    figures: list[tuple[float, float]] = []
    with pools(traced_by) as (untraced, traced):
        for turn in range(rounds + 1):
            both = await asyncio.gather(hop_s(untraced, jobs), hop_s(traced, jobs))
            if traced_by:
                legs = (turn + 1) * jobs * LEGS
                receiver.wait_for(lambda span: span.name.startswith("process "), legs, within_s=0)
            figures.append(both)
    return figures[1:]  # the first one warms up


@contextmanager
def pools(traced_by: dict[str, str]) -> Iterator[tuple[Stack, Stack]]:
    """Give two stacks, the second one traced."""
    agents = {name: agent_file(index) for index, name in enumerate(CHAIN)}
    with stack(agents, script(0.0)) as untraced, stack(agents, script(0.0)) as traced:
        for made in (untraced, traced):
            with patch.dict(os.environ, traced_by if made is traced else {}):
                made.start("dispatcher", concurrency=1_000)
                made.start("workers", *(f"ekiden.agent.{name}" for name in CHAIN), concurrency=1_000)
        yield untraced, traced


async def hop_s(made: Stack, jobs: int) -> float:
    """CPU seconds of a leg, in whatever process."""
    async with Client(made.url) as client:
        await made.ready(client, len(made.children))
        pids = [*(child.pid for child in made.children), await client.server_pid()]
        began_s = sum(map(cpu_s, pids))
        for job in [await client.submit("go", agent="first") for _ in range(jobs)]:
            await client.wait(job)
        await asyncio.sleep(SETTLE_S)
        return (sum(map(cpu_s, pids)) - began_s) / (jobs * LEGS)


if __name__ == "__main__":
    main()
