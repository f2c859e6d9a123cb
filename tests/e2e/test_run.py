"""``ekiden run``: everything for one request, and nothing left behind."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.program import ANSWER_SCRIPT, SLOW_SCRIPT, Program, wait_until
from tests.e2e.terminal import Terminal

BROKEN = {
    "shared/__init__.py": "",  # a folder that is named like a package of ours must not get in the way
    "invoice.py": (
        "def due(customer):\n"
        '    """Return what the customer owes; the discount may be unknown."""\n'
        '    return customer["amount"] - customer["discount"]\n'
    ),
    "tests/__init__.py": "",
    "tests/test_invoice.py": (
        "import unittest\n\n"
        "from invoice import due\n\n\n"
        "class DueTest(unittest.TestCase):\n"
        "    def test_with_discount(self):\n"
        '        self.assertEqual(due({"amount": 100, "discount": 10}), 90)\n\n'
        "    def test_without_discount(self):\n"
        '        self.assertEqual(due({"amount": 100, "discount": None}), 100)\n'
    ),
}


def write_project(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def passes_its_tests(folder: Path) -> bool:
    command = [sys.executable, "-B", "-m", "unittest", "discover"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_the_demo_goes_from_debugger_to_fixer_to_reviewer_and_repairs_the_project(ekiden: Program) -> None:
    del ekiden.env["EKIDEN_AUTO_APPROVE"]  # as the README's readers have it
    done = ekiden.run("run", "--demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waits for" not in done.stdout + done.stderr, "nobody is asked in a folder that we made"
    assert re.search(r"🎯 Routing via rule-match to: debugger \(\d+% confidence\)", done.stdout)
    assert "stand-in for a model" in done.stdout
    assert "🔀 debugger → code-fixer: " in done.stdout
    assert "🔀 code-fixer → reviewer: " in done.stdout
    last_line = done.stdout.rstrip().splitlines()[-1]
    assert re.fullmatch(r"user → debugger → code-fixer → reviewer · [\d.]+ s · \d+ tokens · job \S+\.1", last_line)
    [said_once] = done.stderr.splitlines()
    assert "says what confines it" in said_once
    assert "\x1b" not in done.stdout
    folder = re.search(r"The demo project is in (.*)", done.stdout)
    assert folder is not None
    assert passes_its_tests(Path(folder[1]))
    ekiden.wait_until_gone()
    job = last_line.rpartition(" ")[2]
    chain = ekiden.run("job", "chain", job[:10])  # the data are still there, a beginning of the id is enough
    assert "user → debugger → code-fixer → reviewer" in chain.stdout
    assert ekiden.run("job", "result", job).stdout.strip() in done.stdout


def test_a_project_of_the_users_own_is_repaired_where_it_is(ekiden: Program, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_project(project, BROKEN)
    assert not passes_its_tests(project)
    done = ekiden.run("run", "--cwd", project, "-", "--json", stdin="the tests of this project fail: TypeError in due")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    entries = [event for event in events if event["event"] == "record"]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["status"] == "done"
    assert passes_its_tests(project)


def test_runs_in_the_users_own_folder_whatever_its_packages_are_called(ekiden: Program) -> None:
    write_project(ekiden.folder, BROKEN)
    done = subprocess.run(  # as the installed program: without the current folder on the path
        [sys.executable, "-P", "-m", "ekiden.dispatcher", "run", "the tests fail: TypeError in due"],
        cwd=ekiden.folder,
        env=ekiden.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert passes_its_tests(ekiden.folder)


def test_a_terminal_without_unicode_gets_ascii(ekiden: Program) -> None:
    done = ekiden.run("run", "--demo", env={"LANG": "C"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "* Routing via rule-match to: debugger" in done.stdout
    assert "=> debugger -> code-fixer: " in done.stdout
    assert done.stdout.isascii()


def is_thinking(ekiden: Program) -> bool:
    jobs = [json.loads(line) for line in ekiden.run("jobs", "--json").stdout.splitlines()]
    return any(job["agent"] == "debugger" and job["status"] == "running" for job in jobs)


def test_ctrl_c_cancels_the_job_and_leaves_nothing(ekiden: Program) -> None:
    running = ekiden.start("run", "this fails with an error", env=ekiden.scripts(SLOW_SCRIPT))
    wait_until(lambda: is_thinking(ekiden))
    running.interrupt()
    assert running.ends() == 130
    assert "cancelling the job" in running.output
    assert "🚫 cancelled" in running.output
    assert "Traceback" not in running.output
    ekiden.wait_until_gone()
    listed = ekiden.run("jobs", "--json")
    assert [json.loads(line)["status"] for line in listed.stdout.splitlines()] == ["cancelled"]


def test_a_second_ctrl_c_ends_at_once(ekiden: Program) -> None:
    running = ekiden.start("run", "this fails with an error", env=ekiden.scripts(SLOW_SCRIPT))
    running.wait_for("Routing via")
    running.interrupt()
    running.wait_for("cancelling the job")
    running.interrupt()
    assert running.ends(10) == 130
    assert "Traceback" not in running.output
    ekiden.wait_until_gone()


def abandon_a_job(ekiden: Program) -> None:
    running = ekiden.start("run", "this fails with an error", env=ekiden.scripts(SLOW_SCRIPT))
    running.wait_for("Routing via")
    running.process.kill()
    running.ends()


def test_when_the_program_is_killed_everything_ends_and_its_job_is_asked_about(ekiden: Program) -> None:
    abandon_a_job(ekiden)
    ekiden.wait_until_gone(10)
    refused = ekiden.run("run", "another request: it fails with an error")
    assert refused.returncode == 2
    assert "1 unfinished job(s)" in refused.stderr
    assert "--unfinished resume" in refused.stderr
    assert "ekiden job cancel" in refused.stderr
    assert len(ekiden.run("jobs").stdout.splitlines()) == 2, "the head of the table and the old job: nothing was added"
    resumed = ekiden.run("run", "--unfinished", "resume", env=ekiden.scripts(ANSWER_SCRIPT))
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "user → debugger" in resumed.stdout


def test_a_killed_programs_job_is_not_resumed_while_its_processes_still_end(ekiden: Program) -> None:
    abandon_a_job(ekiden)
    refused = ekiden.run("run", "another request: it fails with an error")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "1 unfinished job(s)" in refused.stderr
    cancelled = ekiden.run("run", "--unfinished", "cancel")
    assert cancelled.returncode == 0
    assert cancelled.stderr == ""


def test_on_a_terminal_the_user_is_asked_what_becomes_of_an_abandoned_job(ekiden: Program) -> None:
    abandon_a_job(ekiden)
    with Terminal(ekiden, "run", "--demo", env={"COLUMNS": "40"}) as terminal:
        for answer in ("perhaps\n", "cancel\n"):
            terminal.wait_for("resume or cancel them?")
            terminal.type(answer)
        terminal.wait_for("code-fixer")
        assert terminal.ends() == 0, terminal.text
        assert terminal.text.count("resume or cancel them?") == 2
        assert "\x1b[" in terminal.output, "colours"


def test_the_projects_own_agents_are_used_and_their_mistakes_shown(ekiden: Program, tmp_path: Path) -> None:
    agents = tmp_path / "project" / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "good.md").write_text("---\nname: gardener\ndescription: Waters.\n---\nWater the plants.\n")
    (agents / "bad.md").write_text("---\nname: broken\ndescription: x\ntriggers: {priority: high}\n---\nHello.\n")
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    done = ekiden.run("run", "--cwd", tmp_path / "project", "--agent", "gardener", "water them")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "🎯 Routing as asked to: gardener" in done.stdout
    assert re.search(r"agent file \S+bad\.md:4: ", done.stdout)
    (agents / "good.md").write_text("---\nname: florist\ndescription: Binds.\n---\nBind flowers.\n")
    done = ekiden.run("run", "--cwd", tmp_path / "project", "--agent", "florist", "bind them")
    assert done.returncode == 0, "what the folder says now is in force: " + done.stdout + done.stderr
    assert "bad.md" not in done.stdout, "that was told, and is as it was"
    assert "an agent file has the error that was told before: `ekiden agents validate`" in done.stdout


def test_a_pool_that_cannot_start_is_named_with_its_reason(ekiden: Program) -> None:
    done = ekiden.run("run", "it fails with an error", env=ekiden.broken_installation())
    assert done.returncode == 2
    assert re.search("the (dispatcher|worker) ended: celery is broken", done.stderr)
    assert "Traceback" not in done.stderr
    ekiden.wait_until_gone()
    assert "cancelled" in ekiden.run("jobs").stdout


def test_a_request_that_no_agent_matches_lists_the_agents(ekiden: Program) -> None:
    done = ekiden.run("run", "sing a song about the sea")
    assert done.returncode == 5
    assert "NO_ROUTE" in done.stdout
    assert "--agent NAME" in done.stdout


def test_a_job_runs_where_jobs_are_signed(ekiden: Program) -> None:
    signs = {"EKIDEN_SIGNING_KEY": "k1:0123456789abcdef0123456789abcdef", **ekiden.scripts(ANSWER_SCRIPT)}
    done = ekiden.run("run", "go", "--agent", "debugger", env=signs)
    assert (done.returncode, "forty-two, says debugger" in done.stdout) == (0, True), done.stdout + done.stderr
