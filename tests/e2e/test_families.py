"""Delegation, returns and variables as a user sees them: one stack of real pools, real workers, one scripted team."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.shared.embedded import attach
from tests.e2e.program import Program, wait_until
from tests.e2e.terminal import Terminal

AGENTS = {
    "lead": """
subagents: [scout, tester]
handoffs:
  - {to: checker, return: true}
  - {to: reviewer, when: auto, description: After the work.}
tools: [set_state]
""",
    "scout": "handoffs: [helper]",
    "helper": "",
    "tester": "",
    "checker": "",
    "reviewer": "",
    "waiter": "subagents: [sleeper]",
    "sleeper": "",
}
SCRIPT = """
agents:
  lead:
    - name: split
      call:
        - {tool: set_state, args: {values: {seen: [1, zwei]}}}
        - {tool: delegate_to_scout, args: {objective: look at the logs}}
        - {tool: delegate_to_tester, args: {objective: run the tests}}
    - {name: check, call: [{tool: transfer_to_checker, args: {reason: "is it right?"}}]}
    - {name: done, say: all is done}
  scout:
    - {name: pass, call: [{tool: transfer_to_helper, args: {reason: bug identified at line 42}}]}
  helper:
    - {name: find, say: found it}
  tester:
    - {name: break, fail: the tester broke}
  checker:
    - {name: check, say: looks fine}
  reviewer:
    - {name: review, say: all is well}
  waiter:
    - {name: wait, call: [{tool: delegate_to_sleeper, args: {objective: sleep}}]}
  sleeper:
    - {name: sleep, delay_s: 60, say: never said}
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A dispatcher and a worker that has room for one leg at a time."""
    root = tmp_path_factory.mktemp("families")
    agents = root / "folder" / ".gemini" / "agents"
    agents.mkdir(parents=True)
    for name, front in AGENTS.items():
        (agents / f"{name}.md").write_text(f"---\nname: {name}\ndescription: Is {name}.\n{front}\n---\nYou: {name}.\n")
    env = {**os.environ, "HOME": str(root), "LANG": "C.UTF-8", "EKIDEN_DATA_DIR": str(root / "data")}
    program = Program(root / "folder", env)
    with attach(root / "server") as attachment:
        program.env |= program.scripts(SCRIPT) | {"EKIDEN_REDIS_URL": attachment.url}
        program.start("dispatcher")
        program.start("worker", "--concurrency", "1")
        try:
            wait_until(lambda: len(json.loads(program.run("status", "--json").stdout)["pools"]) == 2)
            yield program
        finally:
            program.end_all()
    program.wait_until_gone()


def events_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_family_of_jobs_from_its_submission_to_its_chart(stack: Program) -> None:
    words = ["it is broken", "--agent", "lead", "--state", "ticket=4711", "--state", "who=ada"]
    done = stack.run("submit", *words, "--follow", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    job = re.findall(r" · job (\S+)$", done.stdout, re.MULTILINE)[-1]
    lines = done.stdout.splitlines()
    for line in (
        '💡 state: seen = [1, "zwei"] (set_state)',
        "🧩 lead ⇒ scout, tester (2 child jobs)",
        f"  🧩 scout: look at the logs · job {job}.1",
        "  🔀 scout → helper: bug identified at line 42",
        "  ✅ scout: found it",
        "🔀 lead → checker: is it right?",
        "↩ checker returned to lead: looks fine",
        "🔀 lead → reviewer (on completion): After the work.",
    ):
        assert lines.count(line) == 1, (line, done.stdout)
    assert any(line.startswith("  ❌ tester failed (ERROR): ") for line in lines)
    assert f" · 2 child jobs · job {job}" in lines[-1]

    chain = json.loads(stack.run("job", "chain", job, "--json").stdout)
    assert chain["chain"] == ["user", "lead", "checker", "lead", "reviewer"]
    assert [leg["how"] for leg in chain["legs"]] == ["route", "handoff", "return", "automatic"]
    scout, tester = chain["legs"][0]["children"]
    assert (scout["id"], scout["result"], scout["legs"][1]["run_path"]) == (
        f"{job}.1", "found it", ["user", "lead", "scout", "helper"],
    )  # fmt: skip
    assert (tester["status"], tester["reason"]) == ("failed", "ERROR")
    assert chain["total_input_tokens"] > chain["input_tokens"] > 0
    tree = stack.run("job", "chain", job).stdout
    assert "│  ├─ 🧩 scout done (GOAL, " in tree
    assert "─ ↩ checker returned to lead (" in tree
    chart = stack.run("job", "chain", job, "--mermaid").stdout
    assert chart.startswith("flowchart TD\n")
    assert chart.count("==>") == 2

    events = events_of(stack.run("job", "events", job, "--json").stdout)
    assert {event["job"] for event in events} == {job, f"{job}.1", f"{job}.2"}
    child = events_of(stack.run("job", "events", f"{job}.1", "--json").stdout)
    assert child == [event for event in events if event["job"] == f"{job}.1"]
    assert child[0]["run_path"] == ["user", "lead"]
    assert child[-1]["run_path"] == ["user", "lead", "scout", "helper"]

    state = json.loads(stack.run("sessions", "state", job, "--json").stdout)
    assert state["variables"] == {"seen": [1, "zwei"], "ticket": 4711, "who": "ada"}
    assert (state["task_status"], state["current_agent"]) == ("completed", "reviewer")
    listed = json.loads(stack.run("jobs", "--limit", "1", "--json").stdout)
    assert (listed["id"], listed["child_count"]) == (job, 2)
    drawn = stack.run("trace", "show", job).stdout
    assert "⇒ scout" in drawn
    assert "3 child jobs" not in drawn
    played = stack.run("trace", "replay", job, "--speed", "100").stdout
    assert "  ✅ scout: found it" in played
    total, duration = played.splitlines()[-2:]
    assert "1 return, 2 child jobs" in total
    assert duration.startswith("Duration: ")
    exported = json.loads(stack.run("trace", "export", job, "--format", "otlp").stdout)
    spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert sum(span["name"].startswith("invoke_workflow") for span in spans) == 3


def test_variables_are_set_by_whatever_begins_a_job(stack: Program) -> None:
    def variables() -> dict[str, Any]:
        job = json.loads(stack.run("jobs", "--limit", "1", "--json").stdout)["id"]
        found: dict[str, Any] = json.loads(stack.run("sessions", "state", job, "--json").stdout)["variables"]
        return found

    talked = stack.run("chat", "helper", "--state", "a=1", stdin="one\ntwo\n")
    assert talked.stdout.count("helper: found it") == 2, talked.stdout
    assert variables() == {"a": 1}
    assert stack.run("agents", "run", "helper", "-p", "x", "--state", 'b={"c": null}').returncode == 0
    assert variables() == {"b": {"c": None}}
    assert stack.run("run", "x", "--agent", "helper", "--state", "d=text").returncode == 0
    assert variables() == {"d": "text"}
    refused = stack.run("run", "x", "--agent", "helper", "--state", "d")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_ctrl_c_ends_a_parent_that_waits_and_its_children_with_it(stack: Program) -> None:
    with Terminal(stack, "submit", "wait for it", "--agent", "waiter", "--follow") as terminal:
        terminal.wait_for("sleeper thinks")
        terminal.type("\x03")
        terminal.wait_for("cancel the job? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("cancelled")
        assert terminal.ends() == 130
    job = json.loads(stack.run("jobs", "--limit", "1", "--json").stdout)["id"]

    def stands(one: str) -> str:
        return str(json.loads(stack.run("job", "show", one, "--json").stdout)["status"])

    assert stands(job) == "cancelled"
    wait_until(lambda: stands(f"{job}.1") == "cancelled", what="the child is cancelled")
