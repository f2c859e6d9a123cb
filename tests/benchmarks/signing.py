"""What signatures cost: jobs of three legs with them beside jobs without, in turns.

    python -m tests.benchmarks.signing [--jobs 200] [--turns 10]

A job is submitted, routed, handed over after some turns (a reply, a tool's start and result each) and answered, by the
real runner on a real server, its model and tools aside. Prints the CPU of this process for a job, both ways, and the
ratio (median over pairs, and its quartiles); then the same for opening a leg behind a journal of 1,000 entries.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ekiden.shared.embedded import attach
from ekiden.shared.logs import configure_logs
from ekiden.shared.messages import ToolResult
from ekiden.shared.outcomes import Answer, Outcome, Suspended, Transfer
from ekiden.shared.records import Noticed, ToolFinished, ToolStarted
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.relay.sweeper import sweep
from ekiden.shared.signing import Signing
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import connect
from tests.contract.relay_world import reply, submitted
from tests.unit.relay.legs import Move, runner_of, take

LONG = 1_000
Run = Callable[[Stores, str], Awaitable[float]]


def main() -> None:
    """Print both ways and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    configure_logs("WARNING")
    with tempfile.TemporaryDirectory() as folder, attach(Path(folder)) as server:
        asyncio.run(_measure(server.url, options.jobs, options.turns))


async def _measure(url: str, jobs: int, turns: int) -> None:
    client = connect(url)
    plain, signed = Stores.on(client), Stores.on(client, "", None, Signing({"k1": b"s" * 32}))

    async def whole(stores: Stores, name: str) -> float:
        return await _job(stores, name, turns)

    _tell(f"a job of {turns} turns", *await _pairs(plain, signed, whole, jobs))
    _tell(f"opening a leg behind {LONG:,} entries", *await _pairs(plain, signed, _opening, max(jobs // 10, 5)))
    await client.aclose()


async def _pairs(plain: Stores, signed: Stores, run: Run, count: int) -> tuple[list[float], list[float]]:
    """Return the CPU seconds of each, one pair after the other; who begins alternates."""
    found: dict[int, list[float]] = {id(plain): [], id(signed): []}
    for stores in (plain, signed):
        await run(stores, f"{run}warm{id(stores)}")
    for number in range(count):
        for stores in (plain, signed) if number % 2 else (signed, plain):
            found[id(stores)].append(await run(stores, f"{run}{number}.{id(stores)}"))
    return found[id(plain)], found[id(signed)]


def _tell(what: str, plain: list[float], signed: list[float]) -> None:
    ratios = [mine / other for other, mine in zip(plain, signed, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    costs = [statistics.median(one) * 1000 for one in (plain, signed)]
    print(f"{what}: {costs[0]:.2f} ms CPU without signatures, {costs[1]:.2f} ms with them")
    print(f"  ratio {middle:.2f} (quartiles {low:.2f} and {high:.2f} of {len(ratios)} pairs)")


async def _job(stores: Stores, name: str, turns: int) -> float:
    async def work(leg: Leg) -> Outcome:
        for turn in range(turns):
            await leg.record(reply(f"turn {turn}: {'x' * 400}"), is_progress=True)
            await leg.record(ToolStarted(leg=leg.number, call_id=f"c{turn}", name="bash"))
            result = ToolResult(call_id=f"c{turn}", name="bash", content="y" * 400)
            await leg.record(ToolFinished(leg=leg.number, result=result))
        return Transfer(leg.context.advance("b", "because"))

    before = time.process_time()
    await submitted(stores, "fix it", name)
    await _leg(stores, DISPATCH_QUEUE, _route)
    await _leg(stores, queue_for("a"), work)
    await _leg(stores, queue_for("b"), Answer("42"))
    return time.process_time() - before


async def _opening(stores: Stores, name: str) -> float:
    async def fill(leg: Leg) -> Outcome:
        await leg.record(*(Noticed(leg=leg.number, text=f"{number}") for number in range(LONG)))
        return Suspended("retry", 0.0, "again")

    await submitted(stores, "fix it", name)
    await _leg(stores, DISPATCH_QUEUE, _route)
    await _leg(stores, queue_for("a"), fill)
    await sweep(stores.jobs, grace_s=0.0, max_attempts=5)
    message = await take(stores, queue_for("a"))
    before = time.process_time()
    await runner_of(stores, Answer("42")).run(message, queue_for("a"))
    return time.process_time() - before


async def _route(leg: Leg) -> Outcome:
    return Transfer(leg.context.advance("a", "routed", is_route=True), catalog="cat")


async def _leg(stores: Stores, queue: str, move: Move) -> None:
    assert await runner_of(stores, move).run(await take(stores, queue), queue) == "ok"


if __name__ == "__main__":
    main()
