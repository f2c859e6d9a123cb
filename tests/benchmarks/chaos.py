"""Kills workers and the server while jobs run, and counts what was lost or done twice.

    python -m tests.benchmarks.chaos [--jobs 1000] [--rate 20] [--kill-every-s 1] [--server-kills 2] [--mutate SAFETY]

Every job is a chain of three agents, each of which calls a tool that honours idempotency keys and one that does not,
then hands over. First a calm run, then the same with a random pool killed (SIGKILL) every second, every eighth time
stopped (SIGSTOP) past its leases and continued instead, and the server, with its append-only file, killed and
restarted. Effects of tools and calls of the model are counted by a server outside, with their times: one that comes
after its result was in the journal that its process read is one too many, however the journal looks.

``--mutate fence`` or ``journal`` takes that safety out of the pools: then this must find something.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dispatcher.client import Client
from shared.embedded import attach
from shared.errors import StoreUnavailable
from shared.records import Ended, Entry, HandedOff, LegStarted, ModelReplied, ToolFinished
from tests.integration.team import Effects, Team, counting

__all__ = ["Figures", "Plan", "run"]

CHAIN = ("first", "second", "third")
SLACK_S = 0.05
"""Between the server's clock and when the world outside notes a request."""
SAFETIES = ("fence", "journal")


@dataclass(frozen=True)
class Plan:
    """What to do to how many jobs."""

    jobs: int
    rate: float
    kill_every_s: float = 0.0
    server_kills: int = 0
    stop_every: int = 8
    """Every so many strikes one stops a pool instead of killing it."""
    strike: int = signal.SIGKILL
    mutate: str = ""
    lease_s: float = 5.0
    workers: int = 4
    within_s: float = 300.0


@dataclass
class Figures:
    """What a run showed."""

    plan: Plan
    lost: int = 0
    given_up: int = 0
    doubled_effects: int = 0
    repeated_calls: int = 0
    repeated_replies: int = 0
    doubled_handoffs: int = 0
    doubled_ends: int = 0
    model_calls: int = 0
    unknown_told: int = 0
    worker_kills: int = 0
    worker_stops: int = 0
    server_kills: int = 0
    wall_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, int]:
        """What must be zero."""
        return {
            "lost": self.lost,
            "given up": self.given_up,
            "doubled effects": self.doubled_effects,
            "finished tool calls repeated": self.repeated_calls,
            "recorded replies asked again": self.repeated_replies,
            "doubled handoffs": self.doubled_handoffs,
            "doubled ends": self.doubled_ends,
        }

    @property
    def broken_off(self) -> int:
        """Model calls whose answer never came to the journal: made again, at somebody's cost."""
        return self.model_calls - 2 * len(CHAIN) * self.plan.jobs

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost or done twice."""
        return not any(self.faults.values())

    def lines(self) -> list[str]:
        """The figures for people."""
        kills = f"pool kills {self.worker_kills}, stops {self.worker_stops}, server kills {self.server_kills}"
        return [
            f"jobs {self.plan.jobs}, {kills}, {self.wall_s:.0f} s",
            ", ".join(f"{name} {count}" for name, count in self.faults.items()),
            f"calls told 'outcome unknown' {self.unknown_told}, model calls made again {self.broken_off}",
            f"latency {spread(self.latencies_s)}",
            f"recovery of {len(self.recoveries_s)} interrupted legs {spread(self.recoveries_s)}",
        ]


def main() -> None:
    """Run calm, then chaos; exit 1 when anything was lost or done twice (with ``--mutate``: when nothing was)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs submitted per second")
    parser.add_argument("--kill-every-s", type=float, default=1.0)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--skip-calm", action="store_true")
    parser.add_argument("--mutate", choices=SAFETIES, default="")
    options = parser.parse_args()
    runs = {} if options.skip_calm or options.mutate else {"calm": run(Plan(options.jobs, options.rate))}
    stop_every = 1 if options.mutate == "fence" else 8  # only who is stopped and goes on needs it
    plan = Plan(
        options.jobs,
        options.rate,
        options.kill_every_s,
        options.server_kills,
        stop_every=stop_every,
        mutate=options.mutate,
    )
    runs["chaos"] = run(plan)
    for name, figures in runs.items():
        print(name, *figures.lines(), sep="\n  ")
    if "calm" in runs:
        for share in (0.5, 0.99):
            ratio = at(runs["chaos"].latencies_s, share) / at(runs["calm"].latencies_s, share)
            print(f"latency p{share * 100:.0f}, chaos / calm: {ratio:.2f}")
    is_clean = all(figures.is_clean for figures in runs.values())
    sys.exit(0 if is_clean != bool(options.mutate) else 1)


def run(plan: Plan) -> Figures:
    """Run a plan through pools of its own and return the figures."""
    files = {name: agent_file(i) for i, name in enumerate(CHAIN)}
    environment = {"MUTATION": plan.mutate} if plan.mutate else {}
    with (
        tempfile.TemporaryDirectory(prefix="ekiden-chaos-") as folder,
        counting() as effects,
        attach(Path(folder) / "data") as server,
        Team(server.url, Path(folder), files, script(), EFFECTS_URL=effects.url, **environment) as team,
    ):
        return asyncio.run(measure(team, Chaos(team, plan), effects, plan))


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
    """The killing."""

    def __init__(self, team: Team, plan: Plan) -> None:
        self._team = team
        self._plan = plan
        self.worker_kills = self.worker_stops = self.server_kills = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._kill)
        queues = [f"ekiden.agent.{name}" for name in CHAIN]
        for number in range(2):
            team.start(f"router{number}", "router", "ekiden.dispatch", lease_s=plan.lease_s)
        for number in range(plan.workers):
            team.start(f"worker{number}", "worker", *queues, concurrency=200, lease_s=plan.lease_s)
        team.ready(2 + plan.workers)

    def begin(self) -> None:
        """Start to kill."""
        if self._plan.kill_every_s:
            self._thread.start()

    def end(self) -> None:
        """Stop."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _kill(self) -> None:
        chance = random.Random(7)
        for turn in itertools.count():
            if self._stopping.wait(self._plan.kill_every_s):
                return
            pid = self._team.pid(chance.choice(self._team.names()))
            try:
                self._strike(pid, is_stop=turn % self._plan.stop_every == self._plan.stop_every - 1)
            except ProcessLookupError:  # it is being started again
                continue

    def _strike(self, pid: int, *, is_stop: bool) -> None:
        if not is_stop:
            os.kill(pid, self._plan.strike)
            self.worker_kills += 1
            return
        os.kill(pid, signal.SIGSTOP)
        going_on = threading.Timer(1.4 * self._plan.lease_s, _go_on, [pid])
        going_on.daemon = True
        going_on.start()
        self.worker_stops += 1

    def kill_server(self, pid: int) -> None:
        """Kill the server; the embedded mode's keeper starts it again on its file."""
        os.kill(pid, signal.SIGKILL)
        self.server_kills += 1


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):  # it was killed meanwhile
        os.kill(pid, signal.SIGCONT)


async def measure(team: Team, chaos: Chaos, effects: Effects, plan: Plan) -> Figures:
    """Submit at the plan's rate, kill, wait for every job, read every journal."""
    kill_at = {plan.jobs * (n + 1) // (plan.server_kills + 1) for n in range(plan.server_kills)}
    async with Client(team.url) as client:
        chaos.begin()
        began = time.monotonic()
        ids: list[str] = []
        try:
            for n in range(plan.jobs):
                await asyncio.sleep(max(0.0, began + n / plan.rate - time.monotonic()))
                if n in kill_at:
                    chaos.kill_server(await client.server_pid())
                ids.append(await submit(client, f"job {n} of {began}"))
            await all_over(client, ids, plan.within_s)
        finally:
            chaos.end()
        await asyncio.sleep(2 * plan.lease_s if chaos.worker_stops else 0.0)  # for what a zombie might still write
        figures = Figures(plan, wall_s=time.monotonic() - began, server_kills=chaos.server_kills)
        figures.worker_kills, figures.worker_stops = chaos.worker_kills, chaos.worker_stops
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


async def all_over(client: Client, ids: list[str], within_s: float) -> None:
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
    ends = [record for record in records if isinstance(record, Ended)]
    if not ends:
        figures.lost += 1
    elif ends[0].status != "done":
        figures.given_up += 1
    else:
        figures.latencies_s.append((entries[-1].at_ms - entries[0].at_ms) / 1000)
    figures.doubled_ends += max(0, len(ends) - 1)
    moves = [(record.leg, record.context.to_agent) for record in records if isinstance(record, HandedOff)]
    figures.doubled_handoffs += len(moves) - len(set(moves))
    finished = [record for record in records if isinstance(record, ToolFinished)]
    figures.unknown_told += sum(record.result.content.startswith("Outcome unknown") for record in finished)
    answered = {
        f"{job}:{e.record.leg}:{e.record.result.call_id}": e for e in entries if isinstance(e.record, ToolFinished)
    }
    replied = {f"{job}:{e.record.leg}:{e.record.turn}": e for e in entries if isinstance(e.record, ModelReplied)}
    figures.doubled_effects += sum(n - 1 for n in effects.of("plain", job).values())
    figures.repeated_calls += len(finished) - len(answered)
    for kind in ("plain", "idempotent"):
        figures.repeated_calls += too_late(effects.requests(kind, job), answered, entries)
    replies = sum(isinstance(record, ModelReplied) for record in records)
    figures.repeated_replies += replies - len(replied) + too_late(effects.requests("model", job), replied, entries)
    figures.model_calls += sum(effects.of("model", job).values())
    figures.recoveries_s += recoveries(entries)


def too_late(asked: dict[str, list[tuple[float, int]]], recorded: dict[str, Entry], entries: list[Entry]) -> int:
    """How many requests were made though their result was in the journal that their process had read.

    A process that was stopped between the record before a step and the step takes it when it goes on: nothing can keep
    it from that, keys of idempotency make it harmless.
    """
    claims: dict[int, list[int]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry.record, LegStarted):
            claims[int(entry.record.worker.rsplit(".", 2)[1])].append(entry.at_ms)
    return sum(
        any(recorded[key].at_ms < at_ms < (time_s + SLACK_S) * 1000 for at_ms in claims[pid])
        for key, requests in asked.items()
        if key in recorded
        for time_s, pid in requests
    )


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
