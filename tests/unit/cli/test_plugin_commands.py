"""Commands of other packages run only if the settings allow them."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import ConfigurationError
from tests.unit.conftest import Install

COMMANDS = """
import typer

app = typer.Typer(help="Two of them.")


@app.command()
def one():
    print("one")


@app.command()
def two():
    print("two")


def say_hello(name: str = "you"):
    "Greet somebody."
    print(f"hello, {name}")


number = 7
"""


def run(*words: str) -> Any:
    return CliRunner().invoke(app, words)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def commands(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"hello": "say_hello", "group": "app", "jobs": "app", "number": "number", "gone": "gone"}
    install("my-commands", COMMANDS, commands=entries)
    monkeypatch.setenv("EKIDEN_COMMANDS_PACKAGES", "my-commands")


def test_an_allowed_command_is_listed_explained_and_run(commands: None) -> None:
    listed = run("--help").stdout
    assert "hello" in listed
    assert "Two of them." in listed
    assert run("hello", "--name", "Ada").stdout == "hello, Ada\n"
    assert run("group", "two").stdout == "two\n"
    assert "--name" in run("hello", "--help").stdout


def test_a_command_that_is_not_allowed_is_not_loaded_and_the_setting_is_named(install: Install) -> None:
    install("my-commands", "raise SystemExit('loaded')", commands={"hello": "hello"})
    assert "hello" not in run("--help").stdout
    error = run("hello").exception
    assert isinstance(error, ConfigurationError)
    assert "'hello' of the package 'my-commands' is not allowed: `ekiden config set --global" in str(error)


def test_a_command_of_our_own_cannot_be_replaced(commands: None) -> None:
    assert "List the newest jobs" in run("jobs", "--help").stdout
    assert run("--help").stdout.count("│ jobs ") == 1


@pytest.mark.parametrize(("name", "said"), [("number", "of the type int"), ("gone", "AttributeError")])
def test_a_broken_command_is_told_with_its_package(commands: None, name: str, said: str) -> None:
    error = run(name).exception
    assert isinstance(error, ConfigurationError)
    assert f"the command {name!r}: my-commands 1.2 (my_commands:" in str(error)
    assert said in str(error)
    assert "hello" in run("--help").stdout, "one that is broken hides no other"


def test_an_attribute_of_a_module_is_a_command_by_its_name(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("my-commands", COMMANDS)
    monkeypatch.setenv("EKIDEN_COMMANDS_MODULES", "my_commands:say_hello")
    assert run("say-hello").stdout == "hello, you\n"


def test_settings_that_cannot_be_read_leave_our_own_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EKIDEN_COMMANDS_PACKAGES", "../x")
    listed = run("--help")
    assert listed.exit_code == 0
    assert "worker" in listed.stdout
    assert "commands.packages" in listed.stderr


def test_a_folder_that_nobody_trusts_brings_no_commands(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("my-commands", "raise SystemExit('loaded')", commands={"hello": "hello"})
    folder = tmp_path / "clone" / ".gemini"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"commands": {"modules": ["my_commands:hello"]}}', "utf-8")
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_TRUST")
    listed = run("--help")
    assert listed.exit_code == 0
    assert "hello" not in listed.stdout
    assert "ignored settings commands.modules" in listed.stderr
