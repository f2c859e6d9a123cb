"""``ekiden trace``, ``doctor`` and ``status --watch`` on real jobs, with no collector anywhere."""

import json
import re
from typing import Any

from tests.e2e.program import ANSWER_SCRIPT, SLOW_SCRIPT, Program, wait_until

TEMPTING = ["the tests of this project fail", "TypeError", "cart.py", "None"]
"""Words of the demo's prompt, replies, arguments and results."""


def newest_job(ekiden: Program) -> str:
    return str(json.loads(ekiden.run("jobs", "--json", "--limit", 1).stdout)["id"])


def test_a_jobs_trace_is_drawn_exported_and_played_again(ekiden: Program) -> None:
    done = ekiden.run("run", "--demo", "--trace")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^code-fixer \(waited \d+ ms\) ", done.stdout, re.MULTILINE), done.stdout
    ekiden.wait_until_gone()
    job = newest_job(ekiden)

    shown = ekiden.run("trace", "show", job[:8], "--width", 90)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.isascii()
    assert "user -> debugger -> code-fixer -> reviewer | " in shown.stdout
    assert re.search(r"^  bash +\d+ ms \| *\++$", shown.stdout, re.MULTILINE), shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 90
    story = json.loads(ekiden.run("trace", "show", job, "--json").stdout)
    assert [leg["agent"] for leg in story["legs"]] == ["router", "debugger", "code-fixer", "reviewer"]

    exports = {form: ekiden.run("trace", "export", job, "--format", form).stdout for form in ("json", "otlp", "openai")}
    for text in exports.values():
        assert json.loads(text)
        assert [word for word in TEMPTING if word in text] == []
    file = ekiden.folder / "trace.json"
    assert ekiden.run("trace", "export", job, "--content", "-o", file).stdout == ""
    assert all(word in file.read_text() for word in TEMPTING)
    refused = ekiden.run("trace", "export", job, "-o", ekiden.folder / "none" / "trace.json")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)

    played = ekiden.run("trace", "replay", job, "--speed", 50)
    assert played.returncode == 0, played.stderr
    assert "🔀 debugger → code-fixer: " in played.stdout
    assert "Total: 3 agents, 13 model calls, 18 tool calls, 2 handoffs" in played.stdout


def test_an_unknown_job_is_said_so(ekiden: Program, redis_url: str) -> None:
    for command in (["trace", "show"], ["trace", "export"], ["trace", "replay"]):
        done = ekiden.run(*command, "nosuchjob")
        assert (done.returncode, done.stdout) == (4, "")
        assert "nosuchjob" in done.stderr


def test_a_running_job_is_drawn_up_to_now(ekiden: Program, redis_url: str) -> None:
    ekiden.start("dispatcher")
    ekiden.start("worker", env=ekiden.scripts(SLOW_SCRIPT))
    job = ekiden.run("submit", "this fails with an error", "--json").stdout
    job_id = str(json.loads(job)["job"])
    wait_until(lambda: ", running)" in ekiden.run("trace", "show", job_id).stdout)
    text = ekiden.run("trace", "show", job_id).stdout
    assert f"job {job_id} goes on" in text
    story = json.loads(ekiden.run("trace", "show", job_id, "--json").stdout)
    assert (story["status"], story["end_ms"]) == ("running", None)
    ekiden.run("job", "cancel", job_id)


def checks(ekiden: Program, *args: object, **env: str) -> tuple[int, dict[str, Any]]:
    done = ekiden.run("doctor", "--json", *args, env=env)
    found = json.loads(done.stdout)
    assert found["ok"] == (done.returncode == 0)
    return done.returncode, {one["check"]: one for one in found["checks"]}


def test_the_doctor_finds_what_is_missing_and_is_content_when_it_is_there(ekiden: Program, redis_url: str) -> None:
    code, found = checks(ekiden)
    assert code == 0
    assert found["catalog"]["status"] == "warning"
    assert found["pools"]["status"] == "warning"
    assert json.loads(ekiden.run("submit", "anything", "--json").stdout)
    code, found = checks(ekiden)
    assert (code, found["queues"]["status"], found["queues"]["remedy"]) == (1, "error", "ekiden dispatcher")

    ekiden.start("dispatcher")
    ekiden.start("worker", env=ekiden.scripts(ANSWER_SCRIPT))
    wait_until(lambda: checks(ekiden)[1].get("workers", {}).get("status") == "ok")
    code, found = checks(ekiden)
    assert code == 0
    assert {one["status"] for name, one in found.items() if name != "models"} == {"ok"}, found
    text = ekiden.run("doctor").stdout
    assert "✓ server: Valkey " in text
    assert "! models: scripted only" in text
    assert "x" not in {line[0] for line in ekiden.run("doctor", env={"LANG": "C"}).stdout.splitlines()}


def test_the_doctor_reports_a_server_and_a_collector_that_are_away(ekiden: Program) -> None:
    env = {"EKIDEN_REDIS_URL": "redis://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    code, found = checks(ekiden, **env)
    assert code == 1
    assert (found["server"]["status"], found["collector"]["status"]) == ("error", "error")
    assert "✗ server: " in ekiden.run("doctor", env=env).stdout


def test_without_any_server_the_doctor_says_how_to_get_one(ekiden: Program) -> None:
    code, found = checks(ekiden)
    assert (code, found["server"]["status"]) == (0, "warning")
    assert "ekiden run" in found["server"]["text"]


def test_status_goes_on_watching_and_outlives_nothing(ekiden: Program, redis_url: str) -> None:
    watching = ekiden.start("status", "--watch", "--interval", "0.1")
    wait_until(lambda: watching.output.count("No pool runs") >= 2)
    ekiden.start("dispatcher")
    watching.wait_for("ekiden.dispatch")
    watching.interrupt()
    assert watching.ends() == 130
    assert "Traceback" not in watching.output
    lines = ekiden.start("status", "--watch", "--interval", "0.1", "--json")
    wait_until(lambda: lines.output.count("\n") >= 2)
    lines.interrupt()
    assert lines.ends() == 130
    assert "pools" in json.loads(lines.output.splitlines()[0])
