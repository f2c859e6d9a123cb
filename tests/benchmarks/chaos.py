"""Kills workers and the server while jobs run, and counts what was lost or done twice.

    python -m tests.benchmarks.chaos [--jobs 1000] [--rate 20] [--kill-every-s 1] [--server-kills 2]

Every job is a chain of three agents, each of which calls a tool that honours idempotency keys and one that does not,
then hands over. First a calm run, then the same with a random worker killed (SIGKILL) every second and the server, with
its append-only file, killed and restarted. Prints losses, doubled effects, repeated calls, doubled handoffs, latency
beside the calm run, and how long a killed leg waits until somebody goes on with it.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field

from dispatcher.client import Client
from shared.children import Child
from shared.errors import StoreUnavailable
from shared.records import Entry, HandedOff, LegStarted, ModelReplied, ToolFinished
from tests.benchmarks.stack import Stack, stack
from tests.e2e.test_kills import Effects

CHAIN = ("first", "second", "third")
WORKERS = 4


@dataclass
class Figures:
    """What a run showed."""

    jobs: int
    lost: int = 0
    doubled_effects: int = 0
    repeated_calls: int = 0
    doubled_handoffs: int = 0
    unknown_told: int = 0
    worker_kills: int = 0
    server_kills: int = 0
    wall_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost or done twice."""
        return not (self.lost or self.doubled_effects or self.repeated_calls or self.doubled_handoffs)

    def lines(self) -> list[str]:
        """The figures for people."""
        kills = f"worker kills {self.worker_kills}, server kills {self.server_kills}"
        counts = {
            "lost": self.lost,
            "doubled effects": self.doubled_effects,
            "repeated tool calls": self.repeated_calls,
            "doubled handoffs": self.doubled_handoffs,
            "calls told 'outcome unknown'": self.unknown_told,
        }
        return [
            f"jobs {self.jobs}, {kills}, {self.wall_s:.0f} s",
            ", ".join(f"{name} {count}" for name, count in counts.items()),
            f"latency {spread(self.latencies_s)}",
            f"recovery of {len(self.recoveries_s)} killed legs {spread(self.recoveries_s)}",
        ]


def main() -> None:
    """Run calm, then chaos; exit 1 when anything was lost or done twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs submitted per second")
    parser.add_argument("--kill-every-s", type=float, default=1.0)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--skip-calm", action="store_true")
    options = parser.parse_args()
    runs = {} if options.skip_calm else {"calm": run(options.jobs, options.rate, 0.0, 0)}
    runs["chaos"] = run(options.jobs, options.rate, options.kill_every_s, options.server_kills)
    for name, figures in runs.items():
        print(name, *figures.lines(), sep="\n  ")
    if "calm" in runs:
        ratio = at(runs["chaos"].latencies_s, 0.5) / at(runs["calm"].latencies_s, 0.5)
        print(f"latency p50, chaos / calm: {ratio:.2f}")
    sys.exit(0 if all(figures.is_clean for figures in runs.values()) else 1)


def run(jobs: int, rate: float, kill_every_s: float, server_kills: int) -> Figures:
    """Run ``jobs`` through a stack of its own and return the figures."""
    effects = Effects()
    threading.Thread(target=effects.serve_forever, daemon=True).start()
    os.environ |= {"EFFECTS_URL": f"http://127.0.0.1:{effects.server_port}", "KILL_PLANS": "/nonexistent"}
    with stack({name: agent_file(i) for i, name in enumerate(CHAIN)}, script()) as made:
        chaos = Chaos(made, kill_every_s, server_kills)
        figures = asyncio.run(measure(made, chaos, effects, jobs, rate))
    effects.shutdown()
    effects.server_close()
    return figures


def agent_file(index: int) -> str:
    """An agent that hands over to the next of the chain."""
    handoffs = f"handoffs: [{{to: {CHAIN[index + 1]}}}]\n" if index + 1 < len(CHAIN) else ""
    return f"---\nname: {CHAIN[index]}\ndescription: Runner {index}.\n{handoffs}---\nRun.\n"


def script() -> str:
    """Two tools, then the handoff; every turn takes a while, so that kills find legs in the middle."""
    calls = "{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}"
    work = f"    - {{name: work, delay_s: 0.2, call: [{calls}]}}\n"
    text = "agents:\n"
    for here, to in zip(CHAIN, (*CHAIN[1:], ""), strict=True):
        end = f"call: [{{tool: transfer_to_{to}, args: {{reason: go}}}}]" if to else "say: done"
        text += f"  {here}:\n{work}    - {{name: end, delay_s: 0.2, {end}}}\n"
    return text


class Chaos:
    """The pools, and the killing of them."""

    def __init__(self, made: Stack, kill_every_s: float, server_kills: int) -> None:
        self._stack = made
        self._kill_every_s = kill_every_s
        self.server_kills_left = server_kills
        self.worker_kills = 0
        self.server_kills = 0
        self._stopping = threading.Event()
        queues = [f"ekiden.agent.{name}" for name in CHAIN]
        self._recipes = [("router", "ekiden.dispatch")] * 2 + [("worker", *queues)] * WORKERS
        self._pools: list[Child] = [self._start(recipe) for recipe in self._recipes]
        self._threads = [threading.Thread(target=self._supervise)]
        if kill_every_s:
            self._threads.append(threading.Thread(target=self._kill))

    def _start(self, recipe: tuple[str, ...]) -> Child:
        return self._stack.start(recipe[0], *recipe[1:], module="tests.e2e.kill_app", concurrency=200)

    def begin(self) -> None:
        """Start to watch over the pools, and to kill."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop both."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _supervise(self) -> None:
        while not self._stopping.wait(0.05):
            for place, pool in enumerate(self._pools):
                if pool.poll() is not None:
                    self._pools[place] = self._start(self._recipes[place])

    def _kill(self) -> None:
        chance = random.Random(7)
        while not self._stopping.wait(self._kill_every_s):
            pool = chance.choice(self._pools)
            if pool.poll() is None:
                os.kill(pool.pid, signal.SIGKILL)
                self.worker_kills += 1

    def kill_server(self, pid: int) -> None:
        """Kill the server; the embedded mode's keeper starts it again on its file."""
        os.kill(pid, signal.SIGKILL)
        self.server_kills += 1


async def measure(made: Stack, chaos: Chaos, effects: Effects, jobs: int, rate: float) -> Figures:
    """Submit at ``rate``, kill, wait for every job, read every journal."""
    async with Client(made.url) as client:
        await made.ready(client, len(chaos._pools))
        chaos.begin()
        began = time.monotonic()
        ids: list[str] = []
        try:
            for n in range(jobs):
                await asyncio.sleep(max(0.0, began + n / rate - time.monotonic()))
                if chaos.server_kills_left and n >= jobs * (chaos.server_kills + 1) // (chaos.server_kills_left + 3):
                    chaos.server_kills_left -= 1
                    chaos.kill_server(await client.server_pid())
                ids.append(await submit(client, f"job {n} of {began}"))
            await all_over(client, ids)
        finally:
            chaos.end()
        figures = Figures(jobs, worker_kills=chaos.worker_kills, server_kills=chaos.server_kills)
        figures.wall_s = time.monotonic() - began
        for job in ids:
            read(figures, await client.entries(job), effects, job)
        return figures


async def submit(client: Client, request_id: str) -> str:
    """Submit until it is accepted: the request id makes it one job."""
    while True:
        try:
            return await client.submit("go", agent="first", request_id=request_id)
        except StoreUnavailable:
            await asyncio.sleep(0.1)


async def all_over(client: Client, ids: list[str], within_s: float = 300.0) -> None:
    """Wait until every job has ended, or give up and let the count show it."""
    deadline = time.monotonic() + within_s
    left = set(ids)
    while left and time.monotonic() < deadline:
        for job in list(left):
            try:
                if (await client.job(job)).is_over:
                    left.remove(job)
            except StoreUnavailable:
                await asyncio.sleep(0.2)
        await asyncio.sleep(0.1)


def read(figures: Figures, entries: list[Entry], effects: Effects, job: str) -> None:
    """Add what one job's journal and the world outside say."""
    records = [entry.record for entry in entries]
    if records[-1].type != "ended" or records[-1].status != "done":
        figures.lost += 1
    else:
        figures.latencies_s.append((entries[-1].at_ms - entries[0].at_ms) / 1000)
    moves = [(record.leg, record.context.to_agent) for record in records if isinstance(record, HandedOff)]
    figures.doubled_handoffs += len(moves) - len(set(moves))
    finished = [record for record in records if isinstance(record, ToolFinished)]
    figures.repeated_calls += len(finished) - len({(record.leg, record.result.call_id) for record in finished})
    figures.unknown_told += sum(record.result.content.startswith("Outcome unknown") for record in finished)
    figures.doubled_effects += sum(n > 1 for n in effects.of("plain", job).values())
    replies = [record.turn for record in records if isinstance(record, ModelReplied)]
    figures.repeated_calls += max(0, len(replies) - 2 * len(CHAIN))
    figures.recoveries_s += recoveries(entries)


def recoveries(entries: list[Entry]) -> list[float]:
    """How long each interrupted leg waited: from its last record to the next start."""
    return [
        (later.at_ms - earlier.at_ms) / 1000
        for earlier, later in itertools.pairwise(entries)
        if isinstance(later.record, LegStarted)
        and later.record.leg == earlier.record.leg
        and not isinstance(earlier.record, HandedOff)
        and earlier.record.type != "request"
    ]


def spread(values: list[float]) -> str:
    """Median and tail for people."""
    return f"p50 {at(values, 0.5):.2f} s, p99 {at(values, 0.99):.2f} s"


def at(values: list[float], share: float) -> float:
    """The value below which ``share`` of ``values`` lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


if __name__ == "__main__":
    main()
