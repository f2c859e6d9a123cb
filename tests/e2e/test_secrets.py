"""A scan: secrets of many kinds are planted wherever people have them, and everything that can be read is read.

``planted in what operators know``: environments, settings, addresses, arguments. A command that looks everywhere finds
none of it, so that nothing holds any of it: journal, live stream, traces, logs, terminal, processes.
``planted in what is said``: prompts, calls, results, answers. The job's own journal keeps that, word by word: whoever
goes on with the job needs it. What leaves the program has none of it.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from redis import Redis
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.ids import session_of
from ekiden.shared.stores.redis import as_any, connect
from tests.doubles.otlp import OtlpReceiver
from tests.doubles.planted import KINDS, MARK, OPERATORS, found_in
from tests.e2e.program import Program, Running, program_in, wait_until
from tests.integration.scratch import scratch_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process shows is read in /proc")

PASSWORD = f"pw-{MARK}-of-the-server"
WORD = "marmalade"
"""Said among the secrets: where it is, they were said, too."""
PATTERN = f"[{MARK[0]}]{MARK[1:]}"
"""Finds ``MARK``, and is not found by itself."""
EVERYWHERE = f"""
{{
env | grep -i '{PATTERN}'
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -i '{PATTERN}'
echo looked at $(ls -d /proc/[0-9]* | wc -l)
}} > found
cat found
"""
EVERYTHING = "\n".join([WORD, *KINDS.values()])
AGENT = "---\nname: {0}\ndescription: {0}\ntools: [bash, read_file]\n---\nYou are {0}.\n"
SCRIPT = {
    "agents": {
        "prying": [
            {"name": "look", "call": [{"tool": "bash", "args": {"command": EVERYWHERE}}]},
            {"name": "end", "say": "looked"},
        ],
        "quoting": [
            {"name": "quote", "say": EVERYTHING, "call": [{"tool": "bash", "args": {"command": "cat all"}}]},
            {"name": "miss", "call": [{"tool": "read_file", "args": {"path": text}} for text in KINDS.values()]},
            {"name": "guess", "call": [{"tool": "no_such_tool", "args": {"said": text}} for text in KINDS.values()]},
            {"name": "end", "say": EVERYTHING},
        ],
        "failing": [{"name": "break", "fail": EVERYTHING}],
    }
}


@dataclass
class World:
    """Pools whose operator has every kind of secret, and a collector that is told everything."""

    ekiden: Program
    collector: OtlpReceiver
    address: str
    running: list[Running]

    def submit(self, agent: str, prompt: str) -> "tuple[str, str]":
        """Run a job to its end; return its id, and what the terminal shows."""
        done = self.ekiden.run("submit", "--agent", agent, "--follow", "--cwd", self.ekiden.folder, prompt)
        listed = json.loads(self.shown("jobs", "--json").splitlines()[0])
        return listed["id"], done.stdout + done.stderr

    def shown(self, *words: str) -> str:
        """Return what a command of ours prints; it runs in the test's process, since a program costs a second."""
        done = CliRunner().invoke(app, words, env={"HOME": self.ekiden.env["HOME"], "EKIDEN_REDIS_URL": self.address})
        assert done.exit_code in (0, 1), done
        return done.output

    def stored(self, job: str) -> str:
        """Return all that the server holds but what other sessions have, keys and values."""
        return asyncio.run(_everything_at(self.address, session_of(job)))

    def logs(self) -> str:
        """Return everything that the pools have written."""
        return "".join(running.output for running in self.running)


async def _everything_at(address: str, session: str) -> str:
    client = connect(address)
    reads: dict[str, Any] = {"string": client.get, "hash": client.hgetall, "stream": client.xrange}
    reads |= {"set": client.smembers, "list": lambda key: client.lrange(key, 0, -1)}
    reads |= {"zset": lambda key: client.zrange(key, 0, -1)}
    try:
        names = [key async for key in client.scan_iter() if "{" not in key or session in key]
        assert any(session in name for name in names)
        return "\n".join([f"{key} {await as_any(reads[await as_any(client.type(key))](key))}" for key in names])
    finally:
        await client.aclose()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("secrets")
    with ExitStack() as stay:
        server = stay.enter_context(scratch_server(root))
        collector = stay.enter_context(OtlpReceiver())
        (root / "program").mkdir()
        ekiden = stay.enter_context(program_in(root / "program"))
        address = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
        Redis(port=server.port).config_set("requirepass", PASSWORD)  # not by its arguments, which anybody can read
        (ekiden.folder / ".gemini" / "agents").mkdir(parents=True)
        for name in SCRIPT["agents"]:
            (ekiden.folder / ".gemini" / "agents" / f"{name}.md").write_text(AGENT.format(name))
        (ekiden.folder / "all").write_text(EVERYTHING, "utf-8")
        settings = Path(ekiden.env["HOME"], ".gemini", "settings.json")
        settings.parent.mkdir()
        settings.write_text(json.dumps({"ekiden": {"redis_url": address, "model": "scripted"}}))
        ekiden.env |= ekiden.scripts(yaml.safe_dump(SCRIPT, allow_unicode=True))
        ekiden.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        ekiden.env |= {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        planted = {**OPERATORS, "EKIDEN_LOG_LEVEL": "debug"}
        planted["PYTHONUNBUFFERED"] = "1"  # so that pools are started as ever, with arguments of their own to look at
        planted["EKIDEN_TOOLS_SANDBOX"] = "off"  # which hides all other processes from commands
        here = {**planted, "EKIDEN_REDIS_URL": address, "EKIDEN_WORKSPACE_ROOT": str(ekiden.folder)}
        celery = [sys.executable, "-m", "celery", "-A", "ekiden.workers.app", "worker", "-Q", "ekiden.agent.prying"]
        running = [
            ekiden.start("dispatcher", "--log-level", "debug", "--redis", address, env=planted),
            ekiden.start("worker", "--log-level", "debug", "--workspace-root", ekiden.folder, env=here),
            ekiden.start(program=celery, env=here),
        ]
        wait_until(
            lambda: len(json.loads(ekiden.run("status", "--json").stdout)["pools"]) == len(running), what="pools"
        )
        yield World(ekiden, collector, address, running)


def test_no_process_shows_what_its_operator_knows(world: World) -> None:
    for running in world.running:
        with psutil.Process(running.process.pid).oneshot():
            shown = Path(f"/proc/{running.process.pid}/environ").read_bytes()
            assert found_in(shown) == [], running.log
            assert f"HOME={world.ekiden.env['HOME']}".encode() in shown
            assert found_in(Path(f"/proc/{running.process.pid}/cmdline").read_bytes()) == [], running.log


def test_a_command_that_looks_everywhere_finds_nothing_of_the_operators(world: World) -> None:
    job, shown = world.submit("prying", "look")
    (result,) = [event for event in _events(world, job) if event.get("type") == "tool_result"]
    assert re.fullmatch(r"looked at \d+\nexit code: 0", result["result"]["content"]), result
    assert "looked" in shown
    places = {"terminal": shown, "journal and live stream": world.stored(job), "logs": world.logs()}
    assert {place: found for place, text in places.items() if (found := found_in(text))} == {}
    world.collector.wait_for(lambda span: span.attributes.get("ekiden.job.id") == job)
    assert [found for raw in world.collector.raw for found in found_in(raw)] == []


def test_a_command_of_run_finds_nothing_in_any_process_of_it(ekiden: Program) -> None:
    (ekiden.folder / ".gemini" / "agents").mkdir(parents=True)
    (ekiden.folder / ".gemini" / "agents" / "prying.md").write_text(AGENT.format("prying"))
    env = {**OPERATORS, **ekiden.scripts(yaml.safe_dump(SCRIPT, allow_unicode=True)), "EKIDEN_MODEL": "scripted"}
    done = ekiden.run("run", "--agent", "prying", "look", env=env)
    assert done.returncode == 0, done.stderr
    found = (ekiden.folder / "found").read_text("utf-8", "replace")
    assert re.fullmatch(r"looked at \d+\n", found), "in the environment or arguments of a process"
    logs = [path.read_text() for path in ekiden.data.glob("*.log")]
    assert len(logs) >= 3, "the server's, the dispatcher's, the worker's"
    assert [found_in(text) for text in (done.stdout, done.stderr, *logs) if MARK in text.lower()] == []


def _events(world: World, job: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.shown("job", "events", job, "--json").splitlines()]


def test_what_is_said_stays_in_the_job_and_leaves_it_masked(world: World) -> None:
    job, shown = world.submit("quoting", EVERYTHING)
    journal = json.dumps(_events(world, job), ensure_ascii=False)
    for kind, text in KINDS.items():
        assert json.dumps(text, ensure_ascii=False)[1:-1] in journal, f"{kind}: who goes on with the job needs it"
    forms = ("json", "otlp", "openai")
    exports: list[tuple[str, ...]] = [("trace", "export", job, "--content", "--format", form) for form in forms]
    exports += [("trace", "show", job), ("job", "chain", job), ("jobs",), ("sessions", "list")]
    exports += [("sessions", "export", session_of(job))]
    leaving = {" ".join(words): world.shown(*words) for words in exports}
    assert all(WORD in text for words, text in leaving.items() if "export" in words), "it holds what was said"
    leaving |= {"logs": world.logs(), "steps": "\n".join(line for line in shown.splitlines() if "🔧" in line)}
    assert {words: found for words, text in leaving.items() if (found := found_in(text))} == {}
    world.collector.wait_for(lambda span: WORD in str(span.attributes.get("gen_ai.output.messages")))
    assert [found for raw in world.collector.raw for found in found_in(raw)] == [], "in traces or metrics"


def test_an_error_repeats_no_secret_anywhere(world: World) -> None:
    job, shown = world.submit("failing", "fail")
    (ended,) = [event for event in _events(world, job) if event.get("type") == "ended"]
    assert WORD in ended["error"]
    assert WORD in shown
    texts = {"record": json.dumps(ended), "terminal": shown, "logs": world.logs()}
    texts["shown"] = world.shown("job", "show", job)
    assert {place: found for place, text in texts.items() if (found := found_in(text))} == {}
