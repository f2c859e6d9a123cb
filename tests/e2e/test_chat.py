"""Chats: through a pipe and on a terminal, with pools that stay up."""

import json
from itertools import pairwise

from tests.e2e.program import Program
from tests.e2e.terminal import Terminal

SCRIPT = """
agents:
  "*":
    - name: slow
      when: {user: 'slowly\\z'}
      delay_s: 60
      say: never said
    - name: broken
      when: {user: 'broken\\z'}
      fail: the model broke
    - name: answer
      say: "forty-two, says ${agent}"
"""


def test_a_chat_through_a_pipe_is_one_session_and_commands_work(ekiden: Program) -> None:
    lines = [
        "it fails with an error",
        "",
        "and then?",  # no rule matches: whoever answered goes on
        "context",
        '@reviewer "have a look"',
        "@debuger why?",
        "@auto --strategy=rul why?",
        "@auto --strategy=rule it fails with an error, once more",
        "/agent nobody",
        "/nonsense",
        "/agent reviewer",
        "@debugger is it you?",
        "who are you \\",
        "really?",
        "clear",
        "hello",
        "exit",
        "never read",
    ]
    done = ekiden.run("chat", stdin="\n".join(lines), env=ekiden.scripts(SCRIPT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("🤖 Ekiden (interactive mode)\n")
    assert done.stdout.count("forty-two, says debugger") == 6, "two answers, and both in the context; two behind it"
    assert "You: it fails with an error\ndebugger: forty-two" in done.stdout
    assert "Routing via session to: debugger (nobody else is sure: it spoke last)" in done.stdout
    assert "no agent is named 'debuger': did you mean 'debugger'?" in done.stdout
    assert "there is no strategy 'rul'" in done.stdout
    assert "Routing via rule-match to: debugger" in done.stdout
    assert "no agent is named 'nobody'" in done.stdout
    assert "there is no command /nonsense" in done.stdout
    assert done.stdout.count("reviewer: forty-two, says reviewer") == 3, "one message, and the last two"
    assert "never read" not in done.stdout
    assert "\x1b" not in done.stdout
    listed = ekiden.run("sessions", "list", "--json").stdout
    sessions = [json.loads(line) for line in listed.splitlines()]
    assert [session["title"] for session in sessions] == ["hello", "it fails with an error"]
    shown = json.loads(ekiden.run("sessions", "show", sessions[1]["id"], "--json").stdout)
    asked = [(one["text"], next_.get("agent")) for one, next_ in pairwise(shown["messages"]) if one["role"] == "user"]
    assert asked == [
        ("it fails with an error", "debugger"),
        ("and then?", "debugger"),
        ("have a look", "reviewer"),
        ("it fails with an error, once more", "debugger"),
        ("is it you?", "debugger"),
        ("who are you \nreally?", "reviewer"),
    ]
    ekiden.wait_until_gone()


def test_a_chat_through_a_pipe_ends_as_its_last_answer_did(ekiden: Program) -> None:
    done = ekiden.run("chat", "debugger", stdin="hello\nbroken\n", env=ekiden.scripts(SCRIPT))
    assert "🤖 Debugger (interactive mode)\n" in done.stdout
    assert "the model broke" in done.stdout
    assert done.returncode == 1
    unknown = ekiden.run("agents", "run", "debuger", stdin="hello\n", env=ekiden.scripts(SCRIPT))
    assert unknown.returncode == 2
    assert "did you mean 'debugger'?" in unknown.stderr


def test_on_a_terminal_ctrl_c_stops_the_answer_and_not_the_chat(ekiden: Program) -> None:
    with Terminal(ekiden, "agents", "run", "debugger", "-i", env=ekiden.scripts(SCRIPT)) as terminal:
        terminal.wait_for("🤖 Debugger (interactive mode)")
        terminal.wait_for("You:")
        terminal.type("one\\\rtwo\r")
        terminal.wait_for("debugger: forty-two")
        terminal.wait_for("You:")
        terminal.type("slowly\r")
        terminal.wait_for("debugger thinks")
        terminal.type("\x03")
        terminal.wait_for("stopping the answer")
        terminal.wait_for("🚫 cancelled")
        terminal.wait_for("You:")
        terminal.type("/help\r")
        terminal.wait_for("Alt-Enter")
        terminal.wait_for("You:")
        terminal.type("context\r")
        terminal.wait_for("two")
        terminal.wait_for("debugger: forty-two")
        terminal.wait_for("You:")
        terminal.type("\x03")  # drops what was typed
        terminal.type("again\r")
        terminal.wait_for("debugger: forty-two")
        terminal.wait_for("You:")
        terminal.type("\x04")
        assert terminal.ends() == 0, terminal.text
    ekiden.wait_until_gone()
    assert "one" in (ekiden.data / "history").read_text()
    statuses = [json.loads(line)["status"] for line in ekiden.run("jobs", "--json").stdout.splitlines()]
    assert statuses == ["done", "cancelled", "done"]


def test_a_chat_uses_the_pools_of_a_given_address(ekiden: Program, redis_url: str) -> None:
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ".", env=ekiden.scripts(SCRIPT))
    done = ekiden.run("chat", stdin="it fails with an error\n")
    assert done.returncode == 0
    assert "debugger: forty-two, says debugger" in done.stdout
    again = ekiden.run("chat", "--continue", stdin="context\n/agent debugger\nmore\n")
    assert "You: it fails with an error" in again.stdout
    assert "you talk to Debugger" in again.stdout
    assert json.loads(ekiden.run("sessions", "list", "--json").stdout)["jobs"] == 2


def test_in_a_chat_on_a_terminal_the_user_chooses_who_takes_what_nobody_matches(ekiden: Program) -> None:
    with Terminal(ekiden, "chat", "--session-policy", "sticky", env=ekiden.scripts(SCRIPT)) as terminal:
        terminal.wait_for("You:")
        terminal.type("why is the sky blue\r")
        terminal.wait_for("Who takes it?")
        terminal.wait_for("You:")
        terminal.type("hello\r")
        terminal.wait_for("Say what is to be done")
        terminal.wait_for("You:")
        terminal.type("/help\r")
        terminal.wait_for("Alt-Enter")
        terminal.wait_for("You:")
        terminal.type("why is the sky blue\r")
        terminal.wait_for("Who takes it?")
        terminal.wait_for("You:")
        terminal.type("reviwer\r")
        terminal.wait_for("did you mean reviewer?")
        terminal.wait_for("You:")
        terminal.type("reviewer\r")
        terminal.wait_for("reviewer: forty-two")
        terminal.wait_for("You:")
        terminal.type("the tests fail with a TypeError\r")
        terminal.wait_for("Routing via session to: reviewer (policy sticky: it spoke last)")
        terminal.wait_for("reviewer: forty-two")
        terminal.wait_for("You:")
        terminal.type("\x04")
        assert terminal.ends() == 0, terminal.text
    ekiden.wait_until_gone()
