"""``ekiden trace``, ``doctor`` and ``status --watch`` on real jobs, with no collector anywhere."""

import json
import re
from typing import Any

from tests.e2e.program import ANSWER_SCRIPT, SLOW_SCRIPT, Program, wait_until

MACHINES_OWN = {"models", "sandbox"}
"""What the doctor may say of the machine that the tests run on: it has no key, or cannot confine commands well."""
TEMPTING = ["the tests of this project fail", "TypeError", "cart.py", "None"]
"""Words of the demo's prompt, replies, arguments and results."""


def test_a_jobs_trace_is_drawn_exported_and_played_again(ekiden: Program) -> None:
    done = ekiden.run("run", "--demo", "--trace")
    assert done.returncode == 0, done.stdout + done.stderr
    job = re.findall(r" · job (\S+)$", done.stdout, re.MULTILINE)[-1]
    drawn = done.stdout.partition(f"\njob {job} done · ")[2]
    assert re.search(r"^code-fixer \(waited \d+ ms\) ", drawn, re.MULTILINE), done.stdout

    shown = ekiden.run("trace", "show", job[:8])
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.endswith(drawn), "what --trace draws is what `trace show` draws later"

    exported = ekiden.run("trace", "export", job, "--format", "otlp").stdout
    spans = json.loads(exported)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {f"invoke_agent {agent}" for agent in ("debugger", "code-fixer", "reviewer")} <= {
        span["name"] for span in spans
    }
    assert [word for word in TEMPTING if word in exported] == []

    played = ekiden.run("trace", "replay", job, "--speed", 50)
    assert "🔀 debugger → code-fixer: " in played.stdout
    assert re.search(r"\nTotal: 3 agents, 18 tools, 2 handoffs\nDuration: \d+\.\ds\n$", played.stdout)

    again = ekiden.run("job", "rerun", job)
    assert again.returncode == 0, again.stdout + again.stderr
    assert re.fullmatch(rf"✅ job {job} goes the same way again: \d\d steps\n", again.stdout)

    points = [json.loads(line) for line in ekiden.run("job", "fork", job, "--json").stdout.splitlines()]
    at = next(str(one["seq"]) for one in points if one["what"] == "reviewer begins")
    left = ekiden.run("job", "fork", job, "--at", at)
    assert (left.returncode, left.stdout) == (2, "")
    assert "Add --follow, and this command runs the fork to its end, or start `ekiden up`" in left.stderr
    forked = ekiden.run("job", "fork", job, "--at", at, "--follow", "--approve", "safe,low,medium")
    assert forked.returncode == 0, forked.stdout + forked.stderr
    assert "🔀" not in forked.stdout, "what it shares is not shown again"
    fork = re.findall(r" · job (\S+)$", forked.stdout, re.MULTILINE)[-1]
    again = ekiden.run("job", "rerun", fork)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (
        f"the job is a fork: what it shares with {job} is taken as it is\n✅ job {fork} goes the same" in again.stdout
    )


def test_a_running_job_is_drawn_up_to_now_and_an_unknown_one_is_said_so(ekiden: Program, redis_url: str) -> None:
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ekiden.folder, env=ekiden.scripts(SLOW_SCRIPT))
    job = json.loads(ekiden.run("submit", "this fails with an error", "--json").stdout)["job"]
    texts: list[str] = []

    def is_running() -> bool:
        texts.append(ekiden.run("trace", "show", job).stdout)
        return ", running)" in texts[-1]

    wait_until(is_running)
    assert f"job {job} goes on" in texts[-1]
    ekiden.run("job", "cancel", job)
    unknown = ekiden.run("trace", "export", "nosuchjob")
    assert (unknown.returncode, unknown.stdout) == (4, "")
    assert "nosuchjob" in unknown.stderr


def checks(ekiden: Program, **env: str) -> tuple[int, dict[str, Any]]:
    done = ekiden.run("doctor", "--json", env=env)
    found = json.loads(done.stdout)
    assert found["ok"] == (done.returncode == 0)
    return done.returncode, {one["check"]: one for one in found["checks"]}


def test_the_doctor_finds_what_is_missing_and_is_content_when_it_is_there(ekiden: Program, redis_url: str) -> None:
    ekiden.run("submit", "anything")
    code, found = checks(ekiden)
    assert code == 1
    assert (found["queues"]["status"], found["queues"]["remedy"]) == ("error", "ekiden dispatcher")
    assert (found["catalog"]["status"], found["pools"]["status"]) == ("warning", "warning")
    watching = ekiden.start("status", "--watch", "--interval", "0.2")
    ekiden.start("dispatcher")
    ekiden.start("worker", env=ekiden.scripts(ANSWER_SCRIPT))
    served = [re.compile(rf"ekiden.{queue} +\d+ +1 *$", re.MULTILINE) for queue in ("dispatch", "agent.reviewer")]
    wait_until(lambda: all(queue.search(watching.output) for queue in served))
    watching.interrupt()
    assert watching.ends() == 130
    assert "No pool runs" in watching.output
    assert "Traceback" not in watching.output
    code, found = checks(ekiden)
    assert code == 0
    assert {name for name, one in found.items() if one["status"] != "ok"} <= MACHINES_OWN, found


def test_the_doctor_reports_a_server_and_a_collector_that_are_away(ekiden: Program) -> None:
    env = {"EKIDEN_REDIS_URL": "redis://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = ekiden.run("doctor", env=env)
    assert done.returncode == 1
    assert "✗ server: " in done.stdout
    assert "✗ collector: nobody answers at 127.0.0.1:9" in done.stdout
    code, found = checks(ekiden)
    assert (code, found["server"]["status"]) == (0, "warning")
    assert "ekiden run" in found["server"]["text"]
