"""A command that is told of each approval: its input, its environment, its bounds."""

import json
import os
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ekiden.shared.composition import hooks_for
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.hooks.base import Hooks
from ekiden.shared.notifications import CommandNotifier
from ekiden.shared.settings.model import load_settings
from tests.unit.cli.inbox import asked

KEEP = """
import os, sys
open(sys.argv[1], "a").write(f"{sys.stdin.read()}{os.getcwd()} {os.environ.get('GEMINI_API_KEY', '-')}\\n")
"""


def keeping(file: Path) -> list[str]:
    """A command that writes down what it is told."""
    return [sys.executable, "-c", KEEP, str(file)]


def test_each_approval_is_told_whole_as_json_and_outside_of_any_project(tmp_path: Path) -> None:
    notifier = CommandNotifier(keeping(tmp_path / "told"), os.environ)
    for number in (1, 2):
        notifier.approval_asked(asked(number, args={"command": "echo 你好"}))
    notifier.close()
    first, place, second, _ = (tmp_path / "told").read_text().splitlines()
    assert [json.loads(line)["id"][-1] for line in (first, second)] == ["1", "2"]
    assert json.loads(first)["args"] == {"command": "echo 你好"}
    assert place.startswith("/ ")


def test_a_command_that_hangs_is_ended_with_all_that_it_started_and_the_next_is_told(tmp_path: Path) -> None:
    hang = f"sleep 600 & echo $! > {tmp_path / 'pid'}; wait"
    command = ["sh", "-c", f"read -r told; case $told in *'.1:1\"'*) {hang};; *) echo ok > {tmp_path / 'next'};; esac"]
    notifier = CommandNotifier(command, os.environ, timeout_s=1.5)
    with capture_logs() as logs:
        notifier.approval_asked(asked(1))
        notifier.approval_asked(asked(2))
        assert not (tmp_path / "next").exists(), "nobody waits for it"
        notifier.close()
    assert [log["approval"][-1] for log in logs if log["event"] == "notification_failed"] == ["1"]
    assert (tmp_path / "next").exists()
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize("command", [["/nowhere/notify"], ["false"], ["true"]])
def test_what_fails_is_logged_and_changes_nothing(command: list[str]) -> None:
    with capture_logs() as logs:
        notifier = CommandNotifier(command, os.environ)
        notifier.approval_asked(asked())
        notifier.close()
    assert [log["event"] for log in logs] == ([] if command == ["true"] else ["notification_failed"])


def test_the_setting_makes_it_one_of_a_pools_hooks_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "planted-key")
    monkeypatch.setenv("EKIDEN_NOTIFY_COMMAND", json.dumps(keeping(tmp_path / "told")))
    hooks = Hooks(*hooks_for("test", load_settings(), is_host=True))
    assert hooks.hears("approval_asked")
    hooks.approval_asked(asked())
    hooks.close()
    assert (tmp_path / "told").read_text().splitlines()[1] == "/ -"
    monkeypatch.delenv("EKIDEN_NOTIFY_COMMAND")
    assert not Hooks(*hooks_for("test", load_settings(), is_host=True)).hears("approval_asked")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('["./notify.sh"]', "absolute path"),
        ('["bin/notify"]', "absolute path"),
        ("[1]", "string"),
        ('[""]', "names no"),
    ],
)
def test_a_command_that_would_be_another_one_in_each_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv("EKIDEN_NOTIFY_COMMAND", value)
    with pytest.raises(ConfigurationError, match=f"notify.command.*{problem}"):
        load_settings()


def test_a_command_may_be_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_NOTIFY_COMMAND", "notify-send 'Ekiden waits'")
    assert load_settings().notify_command == ["notify-send", "Ekiden waits"]
