"""Approvals across processes: asked on one, waited for by nobody, answered from another, inline, or in advance."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ekiden.shared.embedded import attach
from tests.e2e.program import Program, Running, program_in, wait_until
from tests.e2e.terminal import Terminal

AGENT = """---
name: maker
description: The maker.
tools: [bash, edit_file, ask_user]
---
You make things.
"""
SCRIPT = """
agents:
  maker:
    - {name: end, when: {turn: 2}, say: all is made}
    - {name: ask, when: {user: question}, call: [{tool: ask_user, args: {question: Which?, choices: [main, 小店]}}]}
    - name: two
      call: [{tool: bash, args: {command: "touch ${user}-1"}}, {tool: bash, args: {command: "touch ${user}-2"}}]
"""


@dataclass
class World:
    """A server, a dispatcher and a worker that asks about commands; each test has folders of its own names."""

    ekiden: Program
    worker: Running

    def submitted(self, prompt: str, *options: str) -> str:
        done = self.ekiden.run("submit", prompt, "--agent", "maker", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def approvals(self, job: str) -> list[str]:
        lines = self.ekiden.run("approvals", "list", "--json", "--job", job).stdout.splitlines()
        return [json.loads(line)["id"] for line in lines]

    def told(self) -> set[str]:
        """The approvals that the notifying command has been told of."""
        file = self.ekiden.folder.parent / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        return {json.loads(line)["id"] for line in lines}

    def made(self, name: str) -> bool:
        return (self.ekiden.folder / name).exists()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("approvals")
    with attach(root / "server") as server, program_in(root) as ekiden:
        del ekiden.env["EKIDEN_AUTO_APPROVE"]
        ekiden.env |= {"EKIDEN_REDIS_URL": server.url, "EKIDEN_LEASE_S": "3", **ekiden.scripts(SCRIPT)}
        write_agent(ekiden)
        ekiden.env["EKIDEN_NOTIFY_COMMAND"] = json.dumps(["sh", "-c", f"cat >> {root / 'told'}"])
        ekiden.start("dispatcher", "--publish").wait_for("Serving")
        yield World(ekiden, started(ekiden))


def write_agent(ekiden: Program) -> None:
    agents = ekiden.folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "maker.md").write_text(AGENT)


def started(ekiden: Program) -> Running:
    worker = ekiden.start("worker", "--workspace-root", ".")
    worker.wait_for("Serving")
    return worker


def test_asked_by_a_worker_that_is_killed_answered_from_a_third_process_in_any_order(world: World) -> None:
    ekiden = world.ekiden
    job = world.submitted("across")
    wait_until(lambda: len(world.approvals(job)) == 2, 40.0)
    wait_until(lambda: world.told() >= {f"{job}:1", f"{job}:2"}, what="the command that is told of approvals")
    world.worker.process.kill()
    world.worker.ends()
    assert re.search(r"Waiting for people: \d+, the first until", ekiden.run("status").stdout)
    approved = ekiden.run("approvals", "approve", f"{job}:2")
    assert (approved.returncode, "no worker runs" in approved.stderr) == (0, False), "it is still announced"
    assert ekiden.run("approvals", "deny", f"{job[:8]}", "--reason", "不行").returncode == 0
    late = ekiden.run("approvals", "approve", f"{job}:1")
    assert late.returncode == 9
    assert "was denied by" in late.stderr
    world.worker = started(ekiden)
    followed = ekiden.run("job", "follow", job)
    assert followed.returncode == 0, followed.stdout
    assert "denied by" in followed.stdout
    assert "Tool execution denied by user: bash: 不行" in followed.stdout
    assert (world.made("across-1"), world.made("across-2")) == (False, True)


def test_a_follower_at_a_terminal_is_asked_one_after_the_other(world: World) -> None:
    with Terminal(world.ekiden, "submit", "inline", "--agent", "maker", "--follow") as terminal:
        terminal.wait_for("⚠️ Agent wants to execute bash (Risk: medium)", 40.0)
        terminal.wait_for('"command": "touch inline-1"')
        terminal.wait_for("yes, job: yes for this job, no")
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        terminal.type("perhaps\n")
        terminal.wait_for("that is neither yes nor no")
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        terminal.type("是\n")
        terminal.wait_for('"command": "touch inline-2"')
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        terminal.type("NO\n")
        terminal.wait_for("🚫 denied: maker is told so")
        terminal.wait_for("maker has answered", 40.0)
        assert terminal.ends() == 0
    assert terminal.text.count("yes for this job") == 1, "the first question alone explains itself"
    assert (world.made("inline-1"), world.made("inline-2")) == (True, False)


def test_a_question_that_is_answered_elsewhere_goes_away_and_ctrl_c_leaves_the_job_waiting(world: World) -> None:
    ekiden = world.ekiden
    with Terminal(ekiden, "submit", "elsewhere", "--agent", "maker", "--follow") as terminal:
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        job = re.findall(r"job (\S+\.1):", terminal.text)[0]
        assert ekiden.run("approvals", "deny", f"{job}:1").returncode == 0
        terminal.wait_for("bash: denied by")
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        terminal.type("\x03")
        terminal.wait_for(f"`ekiden approvals approve {job}:2`")
        assert terminal.ends() == 130
    assert world.approvals(job) == [f"{job}:2"], "nothing was answered by going away"
    edit = json.dumps({"command": "touch edited"})
    assert ekiden.run("approvals", "approve", f"{job}:2", "--edit", edit).returncode == 0
    followed = ekiden.run("job", "follow", job)
    assert followed.returncode == 0, followed.stdout
    assert "bash approved, changed, by" in followed.stdout
    assert (world.made("edited"), world.made("elsewhere-2")) == (True, False)


def test_without_a_terminal_a_command_parks_denies_or_approves_as_it_was_told(world: World) -> None:
    parked = world.ekiden.run("submit", "parked", "--agent", "maker", "--wait")
    assert parked.returncode == 8
    assert "waits for somebody to approve bash" in parked.stderr
    options = {"denied": ("--non-interactive", "deny"), "allowed": ("--approve", "safe,low,medium")}
    for prompt, words in options.items():
        done = world.ekiden.run("submit", prompt, "--agent", "maker", "--wait", *words)
        assert (done.returncode, done.stdout) == (0, "all is made\n"), done.stderr
        assert world.made(f"{prompt}-2") == (prompt == "allowed")
    assert not world.made("parked-1")


def test_a_question_of_an_agent_waits_in_the_inbox_and_its_answer_is_the_result(world: World) -> None:
    job = world.submitted("question")
    wait_until(lambda: world.approvals(job), 40.0)
    assert "❓ maker asks: Which?" in world.ekiden.run("approvals", "show", job).stdout
    assert world.ekiden.run("approvals", "answer", job, "other").returncode == 2
    assert world.ekiden.run("approvals", "answer", job, "2").returncode == 0
    assert world.ekiden.run("job", "follow", job).returncode == 0
    lines = map(json.loads, world.ekiden.run("job", "events", job, "--json").stdout.splitlines())
    (result,) = [line["result"] for line in lines if line["type"] == "tool_result"]
    assert result["content"] == "小店"


def test_what_is_approved_for_a_folder_is_asked_about_once(ekiden: Program) -> None:
    del ekiden.env["EKIDEN_AUTO_APPROVE"]
    ekiden.env |= ekiden.scripts(SCRIPT)
    write_agent(ekiden)
    with Terminal(ekiden, "run", "first", "--agent", "maker") as terminal:
        terminal.wait_for("folder: yes for this folder", 40.0)
        terminal.wait_for("Approve? (yes/no): ", 40.0)
        terminal.type("folder\n")
        terminal.wait_for("remembered: bash (risk medium)")
        terminal.wait_for("maker has answered", 40.0)
        assert terminal.ends() == 0
    assert terminal.text.count("Approve?") == 1, "the second call of the turn is no other question"
    assert "bash (medium)" in ekiden.run("trust").stdout
    again = ekiden.run("run", "again", "--agent", "maker")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (ekiden.folder / "again-2").exists()
    assert ekiden.run("trust", "--revoke").returncode == 0
    asked = ekiden.run("run", "asked", "--agent", "maker")
    assert asked.returncode == 8
    assert "`ekiden run --unfinished resume` goes on with it" in asked.stdout


def test_a_job_that_waits_for_a_person_is_in_no_later_commands_way(ekiden: Program) -> None:
    del ekiden.env["EKIDEN_AUTO_APPROVE"]
    ekiden.env |= ekiden.scripts(SCRIPT)
    write_agent(ekiden)
    assert ekiden.run("run", "parked", "--agent", "maker").returncode == 8
    another = ekiden.run("run", "another", "--agent", "maker", "--approve", "medium")
    assert another.returncode == 0, another.stdout + another.stderr
    assert "1 job waits for a person here: `ekiden approvals list`" in another.stderr
    continued = ekiden.run("run", "--continue", "behind it", "--agent", "maker")
    assert continued.returncode == 2, "in its own session it would wait behind it: " + continued.stdout
    assert not (ekiden.folder / "parked-1").exists()
    assert ekiden.run("run", "--unfinished", "cancel").returncode == 0
    assert "cancelled" in ekiden.run("jobs").stdout
