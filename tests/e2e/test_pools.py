"""The distributed form: a server, pools in processes of their own, clients that need only the address."""

import json
import re
import sys
from pathlib import Path

import psutil

from ekiden.shared.demo import write_demo
from tests.e2e.program import ANSWER_SCRIPT, SLOW_SCRIPT, Program, Running, wait_until

CELERY = [sys.executable, "-m", "celery", "-A", "ekiden.workers.app", "worker"]
REQUEST = "the tests of this project fail: TypeError in cart.total"


def pools_of(ekiden: Program) -> list[dict[str, object]]:
    pools: list[dict[str, object]] = json.loads(ekiden.run("status", "--json").stdout)["pools"]
    return pools


def wait_for_pools(ekiden: Program, count: int) -> None:
    wait_until(lambda: len(pools_of(ekiden)) >= count, what=f"{count} pools")


def test_a_chain_crosses_three_worker_processes(ekiden: Program, redis_url: str, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    write_demo(project)
    for agent in ("debugger", "code-fixer", "reviewer"):
        ekiden.start("worker", "--agents", agent, "--workspace-root", tmp_path, "--concurrency", "50")
    ekiden.start("dispatcher")
    wait_for_pools(ekiden, 4)
    done = ekiden.run("submit", REQUEST, "--cwd", project, "--follow", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    started = [event for event in events if event.get("type") == "leg_started"]
    assert [entry["agent"] for entry in started] == ["router", "debugger", "code-fixer", "reviewer"]
    assert len({entry["worker"] for entry in started}) == 4, "the dispatcher and three workers"

    job = json.loads(ekiden.run("jobs", "--status", "done", "--json").stdout)["id"]
    assert job == ekiden.run("job", "show", job, "--json").stdout.split('"')[3]
    legs = json.loads(ekiden.run("job", "chain", job, "--json").stdout)["legs"]
    assert [leg["agent"] for leg in legs] == ["debugger", "code-fixer", "reviewer"]
    assert all(leg["duration_ms"] >= 0 for leg in legs)
    assert "🔀 code-fixer → reviewer: " in ekiden.run("job", "events", job).stdout
    status = ekiden.run("status").stdout
    assert "ekiden.agent.code-fixer" in status
    assert str(tmp_path) in status
    outside = ekiden.run("submit", REQUEST, "--cwd", "/")
    assert outside.returncode == 2
    assert "--workspace-root" in outside.stderr
    unknown = ekiden.run("submit", REQUEST, "--agent", "debuger")
    assert unknown.returncode == 2
    assert "did you mean 'debugger'?" in unknown.stderr


def test_a_plain_celery_worker_serves_legs(ekiden: Program, redis_url: str) -> None:
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    ekiden.env["EKIDEN_WORKSPACE_ROOT"] = str(ekiden.folder)
    ekiden.start("-Q", "ekiden.agent.debugger", program=CELERY)
    ekiden.start("dispatcher")
    wait_for_pools(ekiden, 2)
    done = ekiden.run("submit", "it fails with an error", "--wait")
    assert (done.stdout, done.returncode) == ("forty-two, says debugger\n", 0), done.stderr


def test_a_celery_pool_that_cannot_run_coroutines_is_refused(ekiden: Program, redis_url: str) -> None:
    refused = ekiden.start("-P", "threads", program=CELERY)
    assert refused.ends() != 0
    assert "start the worker without -P" in refused.output
    assert "Traceback" not in refused.output


def test_a_target_without_a_worker_is_waited_for_with_the_command_that_starts_one(
    ekiden: Program, redis_url: str
) -> None:
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    waiting = ekiden.start("submit", "it fails with an error", "--follow")
    waiting.wait_for("start one with `ekiden dispatcher`")
    ekiden.start("dispatcher")
    waiting.wait_for("start one with `ekiden worker --agents debugger`")
    marked = [line for line in ekiden.run("status").stdout.splitlines() if "no consumer" in line]
    assert [line.split()[:2] for line in marked] == [["ekiden.agent.debugger", "1"]]
    worker = ekiden.start("worker", "--agents", "debugger,nobody", "--workspace-root", ".")
    assert waiting.ends() == 0, waiting.output
    assert "forty-two" in waiting.output
    assert waiting.output.count("start one with") == 2
    assert "no agent in the catalog is named 'nobody'" in worker.output
    assert "Serving debugger, nobody at unix://" in worker.output


def test_ctrl_c_while_following_lets_the_job_go_on_and_it_can_be_cancelled(ekiden: Program, redis_url: str) -> None:
    following = ekiden.start("submit", "it fails with an error", "--follow")
    following.wait_for("start one with")
    following.interrupt()
    assert following.ends() == 130
    job = json.loads(ekiden.run("jobs", "--json").stdout)["id"]
    assert f"job {job} goes on: `ekiden job follow {job}` shows it" in following.output
    assert ekiden.run("job", "result", job).returncode == 2
    assert ekiden.run("job", "cancel", job).stdout == f"job {job} is cancelled\n"
    assert ekiden.run("job", "events", job, "--follow").returncode == 130
    assert "had ended before" in ekiden.run("job", "cancel", job).stdout


def test_a_catalog_without_agents_says_so(ekiden: Program, redis_url: str) -> None:
    assert ekiden.run("config", "set", "agents.packs", "[]").returncode == 0
    ekiden.start("dispatcher")
    done = ekiden.run("submit", "it fails with an error", "--follow")
    assert done.returncode == 5
    assert "no agents are loaded: put agent files into .gemini/agents/" in done.stdout


def test_the_dispatcher_names_the_broken_agent_files(ekiden: Program, redis_url: str) -> None:
    folder = ekiden.folder / "more"
    folder.mkdir()
    (folder / "bad.md").write_text("---\nname: broken\ndescription: x\ntriggers: {priority: high}\n---\nHello.\n")
    dispatcher = ekiden.start("dispatcher", "--agents-dir", folder)
    dispatcher.wait_for("bad.md:4")
    dispatcher.wait_for("Serving new jobs at unix://")


def test_a_pool_says_that_it_serves_once_others_see_it(ekiden: Program, redis_url: str) -> None:
    """Whoever submits next must not be told that nobody may work in the folder."""
    for words in (["dispatcher"], ["worker", "--agents", "debugger", "--workspace-root", str(ekiden.folder)]):
        ekiden.start(*words).wait_for("Serving")
    seen = json.loads(ekiden.run("status", "--json").stdout)["pools"]
    assert sorted(pool["kind"] for pool in seen) == ["dispatcher", "worker"]
    assert ekiden.run("submit", "it fails with an error", "--cwd", ekiden.folder).returncode == 0


def address_in(output: str) -> str:
    line = next(line for line in output.splitlines() if line.startswith("export EKIDEN_REDIS_URL="))
    return line.partition("=")[2].strip("'")


def start_up(ekiden: Program, env: dict[str, str]) -> Running:
    running = ekiden.start("up", env=env)
    running.wait_for("ready")
    return running


def test_up_serves_clients_revives_what_dies_and_stops_at_ctrl_c(ekiden: Program) -> None:
    running = start_up(ekiden, ekiden.scripts(ANSWER_SCRIPT))
    second = ekiden.run("up")
    assert second.returncode == 2
    assert "runs already" in second.stderr
    by_address = ekiden.run(
        "submit", "it fails with an error", "--wait", env={"EKIDEN_REDIS_URL": address_in(running.output)}
    )
    assert by_address.stdout == "forty-two, says debugger\n", by_address.stderr
    by_folder = ekiden.run("run", "it fails with an error")
    assert by_folder.returncode == 0
    assert "debugger: forty-two, says debugger\n" in by_folder.stdout
    assert "✅ debugger has answered" in by_folder.stdout
    assert len(pools_of(ekiden)) == 2, "run used what is there"
    worker = next(pool for pool in pools_of(ekiden) if pool["kind"] == "worker")
    pid = worker["pid"]
    assert isinstance(pid, int)
    psutil.Process(pid).kill()
    running.wait_for("the worker ended and is started again: killed by signal 9 (SIGKILL)")
    assert ekiden.run("submit", "it fails with an error", "--wait").stdout == "forty-two, says debugger\n"
    running.interrupt()
    assert running.ends() == 0
    assert "Traceback" not in running.output
    ekiden.wait_until_gone()
    gone = ekiden.run("submit", "it fails with an error")
    assert gone.returncode == 3
    assert "ekiden up" in gone.stderr


def test_up_gives_up_when_a_pool_cannot_start(ekiden: Program) -> None:
    running = ekiden.start("up", env={"CELERY_BENCH": "1"})
    assert running.ends() == 2
    assert re.search(r"the \w+ ended 3 times within 10 s: .*CELERY_BENCH keeps Celery from working", running.output)
    assert "Traceback" not in running.output
    ekiden.wait_until_gone()


def test_up_stops_at_sigterm_even_while_an_agent_thinks(ekiden: Program) -> None:
    running = start_up(ekiden, ekiden.scripts(SLOW_SCRIPT))
    job = ekiden.run("submit", "it fails with an error").stdout.strip()
    wait_until(lambda: '"status": "running"' in ekiden.run("job", "show", job, "--json").stdout)
    running.process.terminate()
    assert running.ends() == 0, "the agent would have thought for far longer than this waits"
    ekiden.wait_until_gone()
