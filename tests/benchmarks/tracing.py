"""What tracing costs: the CPU of a hop with tracing, without it, and how they compare.

    python -m tests.benchmarks.tracing [--jobs 200] [--rounds 5] [--no-metrics]

Chains of three hops, as in ``hop``; the traced worker sends OTLP/HTTP to a collector in this process, whose CPU does
not count. Rounds alternate, and the ratio is of the medians: machines are noisy.
"""

import argparse
import asyncio
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from dispatcher.client import Client
from tests.benchmarks.hop import HOPS, metered
from tests.benchmarks.inflight import CHAIN, agent_file, script
from tests.benchmarks.stack import Stack, stack
from tests.doubles.otlp import OtlpReceiver

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SPANS_ALONE = {"OTEL_METRICS_EXPORTER": "none"}


def main() -> None:
    """Print both and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-metrics", action="store_true", help="Spans alone.")
    given = parser.parse_args()
    figures: dict[bool, list[float]] = {False: [], True: []}
    traced_by = _SPANS_ALONE if given.no_metrics else {}
    with OtlpReceiver() as receiver, pools({**traced_by, _ENDPOINT: receiver.url}) as (untraced, traced):
        for _ in range(given.rounds):
            for is_traced, made in ((False, untraced), (True, traced)):
                figures[is_traced].append(asyncio.run(hop_s(made, given.jobs)))
        spans = len(receiver.spans)
    for is_traced, seconds in figures.items():
        print(f"{'traced' if is_traced else 'untraced'}: {statistics.median(seconds) * 1000:.2f} ms CPU a hop")
    print(f"{spans / (given.jobs * HOPS * given.rounds):.1f} spans a hop reached the collector")
    print(f"ratio {statistics.median(figures[True]) / statistics.median(figures[False]):.2f}")


@contextmanager
def pools(traced_by: dict[str, str]) -> Iterator[tuple[Stack, Stack]]:
    """Give two stacks, the second one traced."""
    agents = {name: agent_file(index) for index, name in enumerate(CHAIN)}
    with stack(agents, script(0.0)) as untraced, stack(agents, script(0.0)) as traced:
        for made in (untraced, traced):
            with patch.dict(os.environ, traced_by if made is traced else {}):
                made.start("dispatcher", concurrency=1_000)
                made.start("workers", *(f"ekiden.agent.{name}" for name in CHAIN), concurrency=1_000)
            asyncio.run(_warm(made))
        yield untraced, traced


async def _warm(made: Stack) -> None:
    async with Client(made.url) as client:
        await made.ready(client, 2)
        await client.wait(await client.submit("go", agent="first"))


async def hop_s(made: Stack, jobs: int) -> float:
    """CPU seconds of worker and server per leg."""
    async with Client(made.url) as client:

        async def run(count: int) -> None:
            ids = [await client.submit("go", agent="first") for _ in range(count)]
            for job in ids:
                await client.wait(job)

        return sum(await metered(made.children[1], await client.server_pid(), run, jobs))


if __name__ == "__main__":
    main()
