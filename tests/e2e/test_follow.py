"""Followers: live text once, whoever joins when; Ctrl-C that asks; a server that comes back."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from ekiden.dispatcher.cli.views.json_lines import event_type
from ekiden.dispatcher.client import Client
from tests.doubles.gemini.rules import parse_rules
from tests.doubles.gemini.server import GeminiServer
from tests.e2e.program import SLOW_SCRIPT, Program, wait_until
from tests.e2e.terminal import Terminal

WORDS = ["It ", "is the ", "missing ", "check in ", "cart.py."]


@pytest.fixture
def slow_model(ekiden: Program, redis_url: str) -> Iterator[None]:
    """A model that writes a word or two a second."""
    rule = {"reply": {"text": WORDS, "chunk_delay": 0.8, "thought": "the price may be missing"}}
    with GeminiServer(parse_rules(rule)) as gemini:
        ekiden.env |= {"GEMINI_API_KEY": "key", "EKIDEN_GEMINI_BASE_URL": gemini.url}
        yield
        ekiden.end_all()


def test_an_early_and_a_late_follower_see_the_streamed_text_once(ekiden: Program, slow_model: None) -> None:
    job = ekiden.run("submit", "the tests fail with a TypeError").stdout.strip()
    early = ekiden.start("job", "follow", job)
    program = ekiden.start("job", "follow", job, "--json", "--tail", "0")
    early.wait_for("no running pool serves")
    program.wait_for("no running pool serves")
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ".")
    early.wait_for("debugger: It")
    assert "cart.py." not in early.output, "it is still being written"
    late = ekiden.start("job", "follow", job, "--thoughts")
    for follower in (early, late, program):
        assert follower.ends() == 0, follower.output
    for follower in (early, late):
        assert follower.output.count("debugger: It is the missing check in cart.py.\n") == 1, follower.output
        assert follower.output.count("missing check") == 1
    assert "… thinking (5 words)\n" in early.output
    assert "debugger thinks: the price may be missing\n" in late.output
    events = [json.loads(line) for line in program.output.splitlines()]
    for event in events:
        event_type().validate_python(event)
    live = "".join(event["text"] for event in events if event["event"] == "live" and not event["thought"])
    assert live
    assert live in "".join(WORDS), "nothing twice"
    assert [event["type"] for event in events if event["event"] == "record"][-2:] == ["model_reply", "ended"]
    schema = json.loads(ekiden.run("job", "events", "--schema").stdout)
    assert "LiveEvent" in schema["$defs"]
    tail = ekiden.run("job", "events", job, "--json", "--tail", "1").stdout
    assert json.loads(tail)["type"] == "ended"


def test_a_follower_outlives_its_server(ekiden: Program, redis_url: str) -> None:
    ekiden.env |= ekiden.scripts(SLOW_SCRIPT)
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ".")
    following = ekiden.start("submit", "it fails with an error", "--follow")
    following.wait_for("Routing via")

    async def server_pid() -> int:
        async with Client(redis_url) as client:
            return await client.server_pid()

    os.kill(asyncio.run(server_pid()), signal.SIGKILL)  # its keeper starts it again
    wait_until(lambda: ekiden.run("jobs", "--json").stdout, what="the server is back")
    job = json.loads(ekiden.run("jobs", "--json").stdout)["id"]
    assert ekiden.run("job", "cancel", job).returncode == 0
    assert following.ends() == 130
    assert "🚫 cancelled" in following.output
    assert following.output.count("Routing via") == 1
    told = re.findall("does not answer|answers again", following.output)
    assert told == ["does not answer", "answers again"] * (len(told) // 2), "once of each time that it is away"


def test_ctrl_c_asks_once_what_becomes_of_the_job(ekiden: Program, redis_url: str) -> None:
    ekiden.env |= ekiden.scripts(SLOW_SCRIPT)
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ".")
    with Terminal(ekiden, "submit", "it fails with an error", "--follow") as terminal:
        terminal.wait_for("Routing via")
        terminal.type("\x03")
        terminal.wait_for("cancel the job? [y/N]")
        terminal.type("n\n")
        terminal.wait_for("debugger thinks")  # it goes on
        terminal.type("\x03")
        terminal.wait_for("cancel the job? [y/N]")
        terminal.type("\x03")
        terminal.wait_for("goes on: `ekiden job follow")
        assert terminal.ends() == 130
    job = json.loads(ekiden.run("jobs", "--json").stdout)["id"]
    with Terminal(ekiden, "job", "follow", job) as terminal:
        terminal.wait_for("Routing via")
        terminal.type("\x03")
        terminal.wait_for("cancel the job? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("🚫 cancelled")
        assert terminal.ends() == 130
    assert json.loads(ekiden.run("jobs", "--json").stdout)["status"] == "cancelled"


def test_ctrl_c_asks_on_pools_of_our_own_and_leaves_nothing(ekiden: Program) -> None:
    with Terminal(ekiden, "run", "it fails with an error", env=ekiden.scripts(SLOW_SCRIPT)) as terminal:
        terminal.wait_for("debugger thinks")
        terminal.type("\x03")
        terminal.wait_for("cancel the job? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("🚫 cancelled")
        assert terminal.ends() == 130
    ekiden.wait_until_gone()
    assert json.loads(ekiden.run("jobs", "--json").stdout)["status"] == "cancelled"
