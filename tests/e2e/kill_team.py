"""The team of the kill matrix: pools that come back when they die, and the world outside that counts what they do."""

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ekiden.dispatcher.client import Client
from ekiden.shared.embedded import attach
from ekiden.shared.processes.children import ChildProcess, start_child
from tests.e2e.program import PATIENCE_S

__all__ = ["Effects", "Team", "gone", "team_in"]

AGENT = """---
name: {name}
description: {name}
tools: "*"
{ends}---
Work.
"""
FLOW = """---
name: flow
kind: graph
description: flow
tools: [print_receipt]
graph:
  entry: plan
  nodes:
    - plan
    - {name: each, agent: payer, for_each: bills.amounts, inputs: {amount: item}}
    - {name: extra, agent: payer, inputs: {amount: bills.extra}}
    - {name: print, tool: print_receipt, args: {amount: "${bills.total}"}, retry: 1}
    - {name: check, graph: checking}
  edges:
    - {from: plan, to: each}
    - {from: plan, to: extra}
    - {from: each, to: print}
    - {from: extra, to: print}
    - {from: print, to: check}
    - {from: check, to: plan, max_rounds: 1}
    - {from: check, to: END, default: true}
---
"""
CHECKING = """---
name: checking
kind: graph
description: checking
graph: {entry: judge, nodes: [judge]}
---
"""
SCRIPT = """
agents:
  first:
    - name: work
      call: [{tool: pay, args: {amount: 1}}, {tool: print_receipt, args: {amount: 1}}]
    - {name: stray, call: [{tool: transfer_to_nobody, args: {reason: whoever that is}}]}
    - {name: hand, call: [{tool: transfer_to_second, args: {reason: my part is done}}]}
  second:
    - name: end
      when: {user: is not finished yet}
      call: [{tool: complete_task, args: {result: all done}}]
    - name: work
      call: [{tool: pay, args: {amount: 2}}, {tool: print_receipt, args: {amount: 2}}]
    - {name: say, say: all done}
  hooked:
    - {name: work, call: [{tool: pay, args: {amount: 4}}]}
    - {name: end, say: all done}
  guarded:
    - {name: work, call: [{tool: pay, args: {amount: 4}}]}
    - {name: end, say: all done}
  asking:
    - {name: work, call: [{tool: print_receipt, args: {amount: 3}}, {tool: pay, args: {amount: 3}}]}
    - {name: end, say: all done}
  plan:
    - {name: plan, call: [{tool: complete_task, args: {bills: {amounts: [1, 2, 3], extra: 4, total: 10}}}]}
  payer:
    - {name: work, call: [{tool: pay, args: {amount: 5}}, {tool: print_receipt, args: {amount: 5}}]}
    - {name: say, say: paid}
  judge:
    - {name: end, say: all done}
  talking:
    - {name: end, when: {user: snapshot of this conversation}, say: all done}
    - {name: think, say: "LONG", call: [{tool: pay, args: {amount: 4}}]}
    - {name: work, call: [{tool: print_receipt, args: {amount: 4}}]}
  state-snapshot:
    - {name: write, say: <state_snapshot><overall_goal>go</overall_goal></state_snapshot>}
""".replace("LONG", " ".join(map(str, range(10_000))))
AGENTS = (
    *("first", "second", "asking", "hooked", "guarded", "talking"),
    *("flow", "checking", "plan", "payer", "judge"),
)


class Effects(ThreadingHTTPServer):
    """The world outside: counts what tools and models do to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Count)
        self.requests: Counter[tuple[str, str]] = Counter()

    def of(self, kind: str, job: str) -> dict[str, int]:
        """How often each key of this kind was asked for, for one job."""
        return {key: n for (what, key), n in self.requests.items() if what == kind and key.startswith(job)}


class _Count(BaseHTTPRequestHandler):
    server: Effects

    def do_POST(self) -> None:
        _, kind, key = self.path.split("/", 2)
        self.server.requests[kind, key] += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class Team:
    """Pools that come back when they die, as under any supervisor."""

    def __init__(self, folder: Path, url: str, effects: Effects) -> None:
        self.url = url
        self.effects = effects
        self.plans = folder / "plans"
        self._env = {
            **os.environ,
            "EKIDEN_REDIS_URL": url,
            "EKIDEN_AGENTS_DIR": f'["{folder / "agents"}"]',
            "EKIDEN_SCRIPTS_DIR": str(folder / "scripts"),
            "EKIDEN_QUARANTINE_FROM": "4",
            "EKIDEN_DRAIN_S": "0",
            "EKIDEN_LEASE_S": "3",
            "HOME": str(folder),
            "KILL_PLANS": str(self.plans),
            "EFFECTS_URL": f"http://127.0.0.1:{effects.server_port}",
        }
        self._log = folder / "pools.log"
        self._pools: dict[str, ChildProcess] = {}
        self._stopping = threading.Event()
        for name in ("router0", "router1", "worker0", "worker1"):
            self._start(name)
        self._watch = threading.Thread(target=self._supervise)
        self._watch.start()

    def _start(self, name: str) -> None:
        app = f"tests.e2e.kill_app:{name[:-1]}"
        queues = (
            "ekiden.dispatch" if name.startswith("router") else ",".join(f"ekiden.agent.{agent}" for agent in AGENTS)
        )
        command = [
            sys.executable,
            "-m",
            "tests.celery_program",
            "-A",
            app,
            "worker",
            "-l",
            "WARNING",
            "-Q",
            queues,
            "-n",
            f"{name}@t",
        ]
        self._pools[name] = start_child(command, env=self._env, log=self._log)

    def _supervise(self) -> None:
        while not self._stopping.wait(0.05):
            for name, pool in list(self._pools.items()):
                if pool.poll() is not None:
                    self._start(name)

    def stop(self) -> None:
        self._stopping.set()
        self._watch.join()
        for pool in self._pools.values():
            pool.stop(0.0)

    def answering(self, approval: str) -> ChildProcess:
        """A client that approves, and dies at points."""
        command = [sys.executable, "-m", "tests.e2e.kill_app", self.url, approval]
        return start_child(command, env=self._env, log=self._log)

    def log(self) -> str:
        return self._log.read_text()[-3000:]


@contextmanager
def team_in(folder: Path) -> Iterator[Team]:
    """Run the team with its files in an empty folder."""
    for name in ("agents", "scripts", "plans"):
        (folder / name).mkdir()
    (folder / "agents" / "first.md").write_text(AGENT.format(name="first", ends="handoffs: [{to: second}]\n"))
    (folder / "agents" / "second.md").write_text(AGENT.format(name="second", ends="complete_task: true\n"))
    confirmed = "confirmation: {require: [print_receipt]}\n"
    (folder / "agents" / "asking.md").write_text(AGENT.format(name="asking", ends=confirmed))
    (folder / "agents" / "hooked.md").write_text(AGENT.format(name="hooked", ends=""))
    guards = "guardrails: [{name: counted, validator: custom, on: [tool_input, output]}]\n"
    (folder / "agents" / "guarded.md").write_text(AGENT.format(name="guarded", ends=guards))
    compressed = "compression: {threshold: 0.01}\n"  # of a million tokens, which the stand-in reads
    (folder / "agents" / "talking.md").write_text(AGENT.format(name="talking", ends=compressed))
    (folder / "agents" / "flow.md").write_text(FLOW)
    (folder / "agents" / "checking.md").write_text(CHECKING)
    bills = "output: {name: bills, schema: {type: object}}\n"
    (folder / "agents" / "plan.md").write_text(AGENT.format(name="plan", ends=bills))
    amount = "inputs: {amount: {type: integer, required: true}}\n"
    (folder / "agents" / "payer.md").write_text(AGENT.format(name="payer", ends=amount))
    (folder / "agents" / "judge.md").write_text(AGENT.format(name="judge", ends=""))
    (folder / "scripts" / "script.yaml").write_text(SCRIPT)
    effects = Effects()
    threading.Thread(target=effects.serve_forever, daemon=True).start()
    with attach(folder / "data") as server:
        made = Team(folder, server.url, effects)
        try:
            asyncio.run(all_there(made))
            yield made
        finally:
            made.stop()
            effects.shutdown()
            effects.server_close()


async def all_there(team: Team) -> None:
    """Wait until all four pools have announced themselves."""
    async with Client(team.url) as client:
        deadline = time.monotonic() + PATIENCE_S
        while len(await client.pools()) < 4:
            assert time.monotonic() < deadline, team.log()
            await asyncio.sleep(0.05)


async def gone(plan: Path) -> None:
    """Wait until the point was reached: the news of a job's end may be quicker than the process behind its commit."""
    deadline = time.monotonic() + PATIENCE_S
    while plan.exists():  # noqa: ASYNC240 - a test
        assert time.monotonic() < deadline, "the point was never reached"
        await asyncio.sleep(0.01)
