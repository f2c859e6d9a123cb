"""Sessions: what was said is remembered in them and nowhere else; one job at a time; failed jobs go on."""

import asyncio
import json

from ekiden.dispatcher.client import Client
from ekiden.shared.records import Routed
from tests.e2e.program import Program, Running

SCRIPT = """
agents:
  debugger:
    - name: slow
      when: {user: 'slowly\\z'}
      delay_s: 60
      say: never said
    - name: note
      say: noted
  reviewer:
    - name: recall
      when: {user: 'remember the word (?P<word>\\w+)'}
      say: "the word was ${word}"
    - name: nothing
      say: you told me no word
"""
FAILING_SCRIPT = """
agents:
  "*":
    - name: fail
      fail: the model broke
"""


def serve(ekiden: Program, script: str = SCRIPT) -> Running:
    """Start a dispatcher and a worker that plays ``script``."""
    if not ekiden.started:
        ekiden.start("dispatcher")
    return ekiden.start("worker", "--workspace-root", ".", env=ekiden.scripts(script))


def said(redis_url: str, session: str) -> list[str]:
    async def messages() -> list[str]:
        async with Client(redis_url) as client:
            return [one.message.text for one in await client.messages(await client.resolve_session(session))]

    return asyncio.run(messages())


def test_a_session_remembers_and_an_agents_own_session_keeps_apart(ekiden: Program, redis_url: str) -> None:
    serve(ekiden)
    first = ekiden.run("submit", "the tests fail with a TypeError: remember the word Otto", "--wait", "--json")
    session = json.loads(first.stdout)["job"].partition(".")[0]
    alone = ekiden.run("agents", "run", "reviewer", "-p", "which word?")
    assert alone.stdout.startswith("🤖 Code Reviewer\n")
    assert "reviewer: you told me no word" in alone.stdout
    assert ekiden.run("submit", "review my change: which word?", "--continue", "--wait").stdout == "the word was Otto\n"
    assert said(redis_url, session) == [
        "the tests fail with a TypeError: remember the word Otto",
        "noted",
        "review my change: which word?",
        "the word was Otto",
    ]
    other = json.loads(ekiden.run("sessions", "list", "--agent", "reviewer", "--json").stdout)["id"]
    again = ekiden.run("agents", "run", "reviewer", "-p", "and now?", "--continue", "--json")
    assert again.returncode == 0, again.stderr
    assert said(redis_url, other) == ["which word?", "you told me no word", "and now?", "you told me no word"]


def test_sessions_are_listed_exported_and_cleared(ekiden: Program, redis_url: str) -> None:
    serve(ekiden)
    job = ekiden.run("submit", "the tests fail with a TypeError: 记住 🐛", "--user", "ada", "--wait", "--json").stdout
    session = json.loads(job)["job"].partition(".")[0]
    row = ekiden.run("sessions", "list", "--user", "ada").stdout.splitlines()[1]
    assert row.split()[:3] == [session, "ada", "(routed)"]
    assert "idle" in row
    written = ekiden.run("sessions", "export", session[:6], "--format", "markdown", "-o", "talk.md")
    assert written.stdout == f"2 message(s) of session {session} are in talk.md\n"
    text = (ekiden.folder / "talk.md").read_text("utf-8")
    assert text.startswith("# the tests fail with a TypeError: 记住 🐛\n")
    assert text.endswith("## You\n\nthe tests fail with a TypeError: 记住 🐛\n\n## debugger\n\nnoted\n")
    exported = json.loads(ekiden.run("sessions", "export", session).stdout)
    assert [message["agent"] for message in exported["messages"]] == ["", "debugger"]
    assert ekiden.run("sessions", "export", session, "-o", "no/such/file").returncode == 2
    assert "2 message(s) and 0 variable(s) forgotten" in ekiden.run("sessions", "clear", session).stdout
    assert said(redis_url, session) == []
    unknown = ekiden.run("sessions", "show", "0")
    assert unknown.returncode == 4
    assert unknown.stderr.count("\n") == 1


def test_a_second_message_to_a_busy_session_waits_its_turn_and_says_so(ekiden: Program, redis_url: str) -> None:
    serve(ekiden)
    first = ekiden.run("submit", "the tests fail with a TypeError slowly").stdout.strip()
    session = first.partition(".")[0]
    second = ekiden.run("submit", "the tests fail with a TypeError", "--session", session)
    assert second.stdout.strip() == f"{session}.2"
    assert second.stderr.startswith(
        f"job {session}.2 waits behind job {first} of its session\n"
    )  # the pools may still start
    refused = ekiden.run("submit", "the tests fail with a TypeError", "--session", session, "--on-busy", "reject")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"job {first!r} of this session still runs" in refused.stderr
    waiting = ekiden.run("jobs", "--status", "waiting", "--json").stdout
    assert json.loads(waiting)["id"] == f"{session}.2"
    busy = json.loads(ekiden.run("sessions", "list", "--json").stdout)
    assert (busy["active"], busy["waiting"]) == (first, 1)
    following = ekiden.start("job", "follow", f"{session}.2")
    following.wait_for("waits behind job")
    ekiden.run("job", "cancel", first)
    assert following.ends() == 0
    assert "debugger: noted" in following.output


def test_a_failed_job_goes_on_where_it_was_when_it_is_retried(ekiden: Program, redis_url: str) -> None:
    worker = serve(ekiden, FAILING_SCRIPT)
    failed = ekiden.run("submit", "the tests fail with a TypeError", "--wait", "--json")
    assert failed.returncode == 1
    job = json.loads(failed.stdout)["job"]
    assert json.loads(ekiden.run("jobs", "--status", "failed", "--json").stdout)["id"] == job
    worker.process.terminate()
    worker.ends()
    serve(ekiden)
    retried = ekiden.run("job", "retry", job[:8], "--follow")
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert "the job is retried" in retried.stdout
    assert "debugger: noted" in retried.stdout
    assert "the model broke" not in retried.stdout, "what was before is not shown again"
    refused = ekiden.run("job", "retry", job)
    assert refused.returncode == 2
    assert said(redis_url, job)[-1] == "noted"


def test_a_sessions_policy_says_who_gets_the_next_message_and_can_be_changed(ekiden: Program, redis_url: str) -> None:
    serve(ekiden)
    first = ekiden.run("submit", "a TypeError", "--session-policy", "entry", "--wait", "--json")
    session = json.loads(first.stdout)["job"].partition(".")[0]

    def ask(prompt: str, **options: str) -> tuple[str, str, str]:
        return asyncio.run(routed(redis_url, session, prompt, options))

    assert ask("have a look", agent="reviewer")[:2] == ("reviewer", "agent")
    assert ask("review my change") == ("debugger", "session", "policy entry: it got the first message")
    assert ask("review my change", strategy="auto")[:2] == ("reviewer", "rule")
    changed = ekiden.run("sessions", "policy", session[:8], "sticky")
    assert changed.stdout == f"session {session}: policy sticky: reviewer gets the next message\n"
    assert ask("a TypeError") == ("reviewer", "session", "policy sticky: it spoke last")
    assert json.loads(ekiden.run("sessions", "list", "--json").stdout)["policy"] == "sticky"
    assert "policy sticky: reviewer gets the next message" in ekiden.run("sessions", "show", session).stdout
    assert "route: the next message is routed" in ekiden.run("sessions", "policy", session, "route").stdout
    assert ask("a TypeError")[:2] == ("debugger", "semantic")
    assert ask("and?") == ("debugger", "session", "nobody else is sure: it spoke last")


async def routed(redis_url: str, session: str, prompt: str, options: dict[str, str]) -> tuple[str, str, str]:
    """Ask in ``session``; return who got it, by which stage, and what the last stage noted."""
    async with Client(redis_url) as client:
        job = await client.submit(prompt, session=session, agent=options.get("agent"), strategy=options.get("strategy"))
        await client.wait(job)
        record = next(entry.record for entry in await client.entries(job) if isinstance(entry.record, Routed))
    return record.agent, record.stage, record.stages[-1].note if record.stages else ""


def test_new_sessions_have_the_policy_of_the_settings(ekiden: Program, redis_url: str) -> None:
    serve(ekiden)
    ekiden.run("config", "set", "agents.routing.session_policy", "sticky")
    job = ekiden.run("submit", "review my change", "--wait", "--json").stdout
    session = json.loads(job)["job"].partition(".")[0]
    row = ekiden.run("sessions", "list").stdout.splitlines()[1]
    assert "sticky" in row
    refused = ekiden.run("submit", "more", "--session", session, "--session-policy", "entry")
    assert refused.returncode == 2
    assert f"`ekiden sessions policy {session} entry`" in refused.stderr
    kept = ekiden.run("submit", "more", "--continue", "--session-policy", "entry", "--wait")
    assert kept.returncode == 0
    assert f"session {session} keeps its policy sticky" in kept.stderr
    assert ekiden.run("sessions", "policy", session, "sometimes").returncode == 2
    assert ekiden.run("sessions", "policy", "0", "route").returncode == 4
