"""Kills workers and the server while jobs run, and counts what was lost or done twice.

    python -m tests.benchmarks.chaos [--jobs 1000] [--rate 20] [--kill-every-s 1] [--server-kills 2] [--mutate SAFETY]
    python -m tests.benchmarks.chaos --rewind crash|failover [--rewinds 5] [--lost-s 1.5] [--wait-replicas 1] ...

Every job is a chain of three agents, each of which calls a tool that honours idempotency keys and one that does not,
then hands over. First a calm run, then the same with a random pool killed (SIGKILL) every second, every eighth time
stopped (SIGSTOP) past its leases and continued instead, and the server, with its append-only file, killed and
restarted. Effects of tools and calls of the model are counted by a server outside, with their times: one that comes
after its result was in the journal that its process read is one too many, however the journal looks. Every journal is
read by who knows what holds of each.

``--rewind`` lets the server go back in time instead of killing it: its file loses its tail (``crash``), or a replica
that lags takes its place (``failover``). What it has forgotten is done again; nothing else is. A job that was accepted
before the moment to which it goes back is there and ends; with ``--wait-replicas`` every job that was confirmed is.

``--mutate fence`` or ``journal`` takes that safety out of the pools: then this must find something; ``--mutate rewind``
with ``--rewind`` takes out what tells two owners apart on a server that went back.
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
from contextlib import suppress
from pathlib import Path

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import Attachment, attach
from ekiden.shared.errors import NotConfirmed, StoreUnavailable, UnknownJob
from ekiden.shared.processes.grace_periods import TAKEOVER_S
from tests.benchmarks.chaos_figures import CHAIN, SAFETIES, Figures, Plan, at, read_job
from tests.integration.rewinds import RewindingServer, Window, rewinding_server
from tests.integration.team import Effects, Team, counting

__all__ = ["run"]


def main() -> None:
    """Run calm, then chaos; exit 1 when anything was lost or done twice (with ``--mutate``: when nothing was)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs submitted per second")
    parser.add_argument("--kill-every-s", type=float, default=1.0)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--skip-calm", action="store_true")
    parser.add_argument("--mutate", choices=SAFETIES, default="")
    parser.add_argument("--rewind", choices=("crash", "failover"))
    parser.add_argument("--rewinds", type=int, default=5)
    parser.add_argument("--lost-s", type=float, default=1.5, help="how much the server forgets each time")
    parser.add_argument("--wait-replicas", type=int, default=0)
    options = parser.parse_args()
    runs = {} if options.skip_calm or options.mutate else {"calm": run(Plan(options.jobs, options.rate))}
    stop_every = 1 if options.mutate == "fence" else 8  # only who is stopped and goes on needs it
    plan = Plan(
        options.jobs,
        options.rate,
        options.kill_every_s,
        0 if options.rewind else options.server_kills,
        stop_every=stop_every,
        mutate=options.mutate,
        rewind=options.rewind,
        rewinds=options.rewinds,
        lost_s=options.lost_s,
        wait_replicas=options.wait_replicas,
        turn_s=1.0 if options.rewind else Plan.turn_s,  # long enough for another to begin what is forgotten
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
        (
            rewinding_server(plan.rewind, Path(folder) / "data") if plan.rewind else attach(Path(folder) / "data")
        ) as server,
        Team(server.url, Path(folder), files, script(plan.turn_s), EFFECTS_URL=effects.url, **environment) as team,
    ):
        rewinding = None if isinstance(server, Attachment) else server
        return asyncio.run(measure(team, Chaos(team, plan), effects, plan, rewinding))


def agent_file(index: int) -> str:
    """An agent that hands over to the next of the chain."""
    handoffs = f"handoffs: [{{to: {CHAIN[index + 1]}}}]\n" if index + 1 < len(CHAIN) else ""
    return f"---\nname: {CHAIN[index]}\ndescription: Runner {index}.\ntools: '*'\n{handoffs}---\nRun.\n"


def script(turn_s: float) -> str:
    """Two tools, then the handoff; every turn takes a while, so that kills find legs in the middle."""
    calls = "{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}"
    work = f"    - {{name: work, delay_s: {turn_s}, call: [{calls}]}}\n"
    text = "agents:\n"
    for here, to in zip(CHAIN, (*CHAIN[1:], ""), strict=True):
        end = f"call: [{{tool: transfer_to_{to}, args: {{reason: go}}}}]" if to else "say: done"
        text += f"  {here}:\n{work}    - {{name: end, delay_s: {turn_s}, {end}}}\n"
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
        settings = {"lease_s": plan.lease_s, "wait_replicas": plan.wait_replicas}
        for number in range(2):
            team.start(f"router{number}", "router", "ekiden.dispatch", env=None, **settings)
        for number in range(plan.workers):
            team.start(f"worker{number}", "worker", *queues, env=None, concurrency=200, **settings)
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
        going_on = threading.Timer(1.4 * (self._plan.lease_s + TAKEOVER_S), _go_on, [pid])
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


async def measure(
    team: Team, chaos: Chaos, effects: Effects, plan: Plan, server: RewindingServer | None = None
) -> Figures:
    """Submit at the plan's rate, kill or rewind, wait for every job, read every journal."""
    kill_at, rewind_at = spread_over(plan.jobs, plan.server_kills), spread_over(plan.jobs, plan.rewinds)
    figures = Figures(plan)
    async with Client(team.url, plan.wait_replicas) as client:
        chaos.begin()
        began = time.monotonic()
        accepted: dict[str, float] = {}
        rewinding: asyncio.Task[Window] | None = None
        try:
            for n in range(plan.jobs):
                await asyncio.sleep(max(0.0, began + n / plan.rate - time.monotonic()))
                if n in kill_at:
                    chaos.kill_server(await client.server_pid())
                if server is not None and n in rewind_at:
                    figures.windows += [await rewinding] if rewinding else []
                    rewinding = asyncio.create_task(asyncio.to_thread(server.rewind, plan.lost_s))
                job = await submit(client, f"job {n} of {began}", figures)
                accepted[job] = time.time()
            figures.windows += [await rewinding] if rewinding else []
            await all_over(client, list(accepted), plan.within_s)
        finally:
            chaos.end()
        may_be_late = chaos.worker_stops or figures.windows
        await asyncio.sleep(2 * plan.lease_s if may_be_late else 0.0)  # for what a zombie might still write
        figures.wall_s, figures.server_kills = time.monotonic() - began, chaos.server_kills
        figures.worker_kills, figures.worker_stops = chaos.worker_kills, chaos.worker_stops
        for job, at_s in accepted.items():
            await read_job(figures, client, effects, job, at_s)
        return figures


def spread_over(jobs: int, times: int) -> set[int]:
    """Return at which of so many jobs something is to happen."""
    return {jobs * (n + 1) // (times + 1) for n in range(times)}


async def submit(client: Client, request_id: str, figures: Figures) -> str:
    """Submit until it is accepted, and confirmed where that is waited for: the request id makes it one job."""
    while True:
        try:
            return await client.submit("go", agent="first", request_id=request_id)
        except StoreUnavailable:
            await asyncio.sleep(0.1)
        except NotConfirmed:
            figures.unconfirmed += 1


async def all_over(client: Client, ids: list[str], within_s: float) -> None:
    """Wait until every job has ended or is forgotten, or give up and let the count show it."""
    deadline = time.monotonic() + within_s
    left = set(ids)
    while left and time.monotonic() < deadline:
        for job in list(left):
            try:
                if (await client.job(job)).is_over:
                    left.remove(job)
            except UnknownJob:
                left.remove(job)
            except StoreUnavailable:
                await asyncio.sleep(0.2)
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
