"""The commands in a folder that nobody trusts, and those that trust it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.main import app
from ekiden.shared.definitions.loader import AGENTS_FOLDER
from ekiden.shared.errors import EkidenError, InvalidRequest, StoreUnavailable
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.once import Once
from ekiden.shared.project_folders import state_folder
from ekiden.shared.project_tools import allowed_tool_files
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import change_setting, project_file
from ekiden.shared.settings.model import load_settings
from ekiden.shared.trust import notices
from ekiden.shared.trust.grants import grants_of, vouches_for
from ekiden.shared.trust.rights import value_right
from ekiden.shared.trust.store import ApprovedCall, remember, remembered
from ekiden.shared.trust_prompts import listed, settle_trust

NOWHERE = "redis://:pa55word@127.0.0.1:9/0"


def ekiden(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, words, input=typed)


def fine(*words: str) -> str:
    result = ekiden(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def write(root: Path, name: str, **fields: Any) -> None:
    path = root / AGENTS_FOLDER / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{yaml.safe_dump({'name': name, 'description': 'x', **fields})}---\nWork.\n")


@pytest.fixture
def hostile(project: Path) -> Path:
    """A project that asks for a lot."""
    write(project, "lure", tools=["bash"])
    write(project, "calm", tools=["read_file"])
    change_setting(project_file(), "ekiden.redis_url", NOWHERE)
    return project


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["config", "list", "--origin"], 0),
        (["config", "get", "redis_url"], 0),
        (["models"], 0),
        (["agents", "list"], 0),
        (["agents", "show", "lure"], 0),
        (["agents", "validate", "--all", "--strict"], 0),
        (["agents", "validate", "lure"], 0),
        (["route", "the tests fail with a TypeError"], 0),
        (["doctor"], 0),
        (["jobs"], 3),
        (["status"], 3),
        (["submit", "hello"], 3),
        (["worker"], 3),
        (["dispatcher"], 3),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_every_command_says_that_the_folder_is_not_trusted_and_ends_as_it_would_without_it(
    hostile: Path, words: list[str], code: int
) -> None:
    result = ekiden(*words)
    found = result.exception.exit_code if isinstance(result.exception, EkidenError) else result.exit_code
    lines = [line for line in result.stderr.splitlines() if "is not trusted" in line]
    assert found == code, (result.output, result.exception)
    assert lines, result.output
    assert len(lines) == len(set(lines)), "each thing once"
    assert lines[0].startswith(f"ekiden: the folder {str(hostile)!r} is not trusted: ")
    assert sum("`ekiden trust` shows what it asks for, and grants it" in line for line in lines) == 1
    assert "ekiden.redis_url" in result.stderr
    assert "pa55word" not in result.stderr


@pytest.mark.parametrize("words", [["worker"], ["dispatcher"], ["submit", "hello"]])
def test_services_take_the_folders_word_for_this_time(hostile: Path, words: list[str]) -> None:
    result = ekiden(*words, "--trust")
    assert isinstance(result.exception, StoreUnavailable), "the server that the folder names is asked"
    assert "not trusted" not in result.output
    assert not state_folder().exists()


@pytest.mark.parametrize("words", [["config", "get", "redis_url"], ["agents", "show", "lure"], ["jobs"]])
def test_nothing_is_said_of_a_folder_that_is_trusted(
    hostile: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(hostile, granted=project_trust_of(hostile).wanted)
    monkeypatch.setattr(notices, "_told", Once())
    assert "not trusted" not in ekiden(*words).output


def test_the_folder_is_shown_asked_about_only_on_a_terminal_granted_listed_and_taken_back(hostile: Path) -> None:
    shown = ekiden("trust")
    assert isinstance(shown.exception, InvalidRequest)
    assert shown.stdout.splitlines() == [
        f"{hostile} asks for:",
        "  agent lure: bash",
        '  ekiden.redis_url = "redis://:pa55word@127.0.0.1:9/0"',
        "  (the tool bash runs any command as you: `ekiden doctor` says what confines it)",
    ]
    assert not state_folder().exists(), "to look grants nothing"
    assert json.loads(fine("trust", "--json")) == {
        "folder": str(hostile),
        "trusted": False,
        "asks": [
            {"subject": "agent lure", "what": "bash", "granted": False},
            {
                "subject": "setting ekiden.redis_url",
                "what": 'ekiden.redis_url = "redis://:pa55word@127.0.0.1:9/0"',
                "granted": False,
            },
        ],
        "approved": [],
    }
    assert "It is trusted: all of this is granted" in fine("trust", "--yes")
    assert load_settings().redis_url == NOWHERE
    assert json.loads(fine("trust", "--json"))["trusted"]
    remember(hostile, approved=[ApprovedCall("bash", "medium")])
    assert "approved for all jobs here, until `ekiden trust --revoke`: bash (medium)\n" in fine("trust", "--yes")
    assert json.loads(fine("trust", "--json"))["approved"] == [["bash", "medium"]]
    assert fine("trust", "--list").split() == ["folder", "granted", "refused", "approved", str(hostile), "2", "0", "1"]
    assert json.loads(fine("trust", "--list", "--json")) == {
        "folder": str(hostile),
        "granted": 2,
        "refused": 0,
        "approved": [["bash", "medium"]],
    }
    assert "not trusted any more" in fine("trust", "--revoke")
    assert load_settings().redis_url is None
    assert not remembered(hostile).approved
    assert "Nothing was granted" in fine("trust", "--revoke")
    assert "no folder yet" in fine("trust", "--list")


def test_another_folder_is_named_and_a_sub_folder_means_its_project(hostile: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, "theirs", tools=["bash"])
    (other / "src").mkdir()
    assert "agent theirs: bash" in fine("trust", str(other / "src"), "--yes")
    assert remembered(other).granted
    assert not remembered(hostile).granted
    fine("trust", "--revoke", str(other / "src"))
    assert not remembered(other).granted


@pytest.mark.parametrize("words", [["nowhere"], ["--list", "--revoke"], ["--yes", "--revoke"]])
def test_a_word_that_means_nothing_is_refused(words: list[str]) -> None:
    assert isinstance(ekiden("trust", *words).exception, InvalidRequest)


def test_a_folder_that_asks_for_nothing_is_said_to(project: Path) -> None:
    write(project, "calm", tools=["read_file"])
    assert fine("trust") == f"{project} asks for nothing that needs your trust\n"
    assert fine("trust", "--yes").endswith("nothing that needs your trust\nIt is trusted: you vouch for its texts\n")
    assert vouches_for(project)
    assert "not trusted" not in ekiden("agents", "list").output


def test_what_is_granted_but_cannot_be_read_is_said_and_nothing_is_granted(hostile: Path) -> None:
    remember(hostile, granted=project_trust_of(hostile).wanted)
    (path,) = (state_folder() / "trust").glob("*.json")
    path.write_text("{")
    result = ekiden("config", "get", "redis_url")
    assert result.stdout == "null\n"
    assert str(path) in result.stderr
    assert "remove it" in result.stderr
    assert "cannot be read" in ekiden("trust").stdout
    assert json.loads(fine("trust", "--json"))["problem"]


def test_what_the_user_writes_with_our_commands_is_trusted_and_no_more_than_that(hostile: Path) -> None:
    fine("config", "set", "ekiden.lease_s", "3")
    assert load_settings().lease_s == 3
    assert load_settings().redis_url is None, "somebody else wrote that"
    fine("agents", "create", "helper", "--description", "Helps.", "--tools", "bash")
    granted = {right.what for right in remembered(hostile).granted if right.subject == "agent helper"}
    assert granted == {"tool bash"}
    assert [right.subject for right in project_trust_of(hostile).lacking] == ["agent lure", "setting ekiden.redis_url"]


def test_an_agent_that_the_user_edits_is_trusted_as_saved(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'More.')"
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", code]))
    fine("agents", "edit", "lure")
    assert [right.subject for right in project_trust_of(hostile).lacking] == ["setting ekiden.redis_url"]
    fine("agents", "edit", "debugger")
    assert [right.subject for right in project_trust_of(hostile).lacking] == ["setting ekiden.redis_url"]
    assert "(project)" in fine("agents", "show", "debugger")


def test_a_users_own_agents_and_settings_need_no_trust(project: Path) -> None:
    fine("config", "set", "--global", "ekiden.model", "scripted")
    fine("agents", "create", "everywhere", "--description", "x", "--tools", "bash", "--scope", "global")
    assert not state_folder().exists()
    assert load_settings().model == "scripted"


def test_servers_of_a_project_are_not_used_until_it_is_trusted(project: Path) -> None:
    change_setting(project_file(), "mcpServers", {"git": {"command": "x"}})
    assert not configured_servers(project).servers
    remember(project, granted=project_trust_of(project).wanted)
    assert list(configured_servers(project).servers) == ["git"]


def test_without_a_terminal_the_user_is_told_once_what_the_folder_does_not_get(
    hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settle_trust(False)
    assert capsys.readouterr().err == (
        f"ekiden: the folder {str(hostile)!r} is not trusted: agents lure get only tools that read, and count "
        "behind all others; ignored setting ekiden.redis_url. `ekiden trust` shows what it asks for, and grants it\n"
    )
    load_settings()
    assert capsys.readouterr().err == ""
    assert remembered(hostile).refused == frozenset(), "who was not asked has not refused"


def test_trust_for_now_is_passed_on_and_not_remembered(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settle_trust(True)
    assert load_settings().redis_url == NOWHERE
    assert grants_of(hostile).is_all
    assert json.loads(os.environ["EKIDEN_TRUST"]) == [str(hostile)]
    assert not state_folder().exists()
    assert capsys.readouterr().err == ""


def test_a_linked_folder_is_the_one_that_it_leads_to(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(hostile)
    fine("trust", str(tmp_path / "link"), "--yes")
    monkeypatch.chdir(tmp_path / "link")
    assert load_settings().redis_url == NOWHERE


def test_a_folder_with_an_odd_name_is_told_of_on_one_harmless_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "a b\x1b[2K\n\u202e\udcff"
    write(odd, "lure", tools=["bash"])
    settle_trust(False, odd)
    notices.tell(tmp_path / "other\x1b\n", "ignored")
    for line in (said := capsys.readouterr().err.splitlines()):
        assert line.isprintable()
    assert len(said) == 2


def test_what_would_hide_or_steer_a_terminal_is_shown_and_nothing_is_cut() -> None:
    value = f"\u202e\x1b[2K\n{'x' * 5_000} end"
    [line] = listed([value_right("setting a", value, f"a = {value}")])
    assert line.isprintable()
    assert "\\u202e" in line
    assert line.endswith("x end")


def test_a_folder_without_our_files_costs_no_look_at_agents(project: Path) -> None:
    code = (
        "import sys; from ekiden.shared.trust_prompts import settle_trust; settle_trust(False);"
        "print([name for name in sys.modules if name.startswith(('ekiden.shared.definitions', 'pydantic'))])"
    )
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


def test_nothing_that_a_folder_asks_for_hides_behind_what_looks_like_a_secret(project: Path) -> None:
    elsewhere = "http://token=generativelanguage.googleapis.com@203.0.113.7"
    change_setting(project_file(), "ekiden.gemini_base_url", elsewhere)
    assert elsewhere in ekiden("trust").stdout


def test_a_tool_that_no_worker_will_load_for_its_name_is_told_before_and_after_it_is_trusted(project: Path) -> None:
    folder = project / ".ekiden" / "tools"
    folder.mkdir(parents=True)
    (folder / "zh.py").write_text(
        "from ekiden import tool\n\n\n@tool\ndef 切分(text: str) -> str:\n    return text\n", "utf-8"
    )
    write(project, "cutter", tools=["切分"])

    for words in (("trust", "--yes"), ("trust",), ("agents", "validate", "cutter")):
        said = " ".join(ekiden(*words).output.split())
        assert "tools: .ekiden/tools/zh.py has no usable name ('切分'): a plain str makes one" in said, words


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def a_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (a_folder, ".ekiden/tools/d.py", "d.py is a folder: remove it"),
        (a_pipe, ".ekiden/scripts/f.yaml", "f.yaml is no regular file: remove it"),
    ],
)
def test_what_nobody_can_grant_is_told_with_its_remedy_and_the_rest_is_granted(
    make: Callable[[Path], None], name: str, said: str, project: Path
) -> None:
    write(project, "keen", tools=["bash"])
    change_setting(project_file(), "ekiden.scripts_dir", ".ekiden/scripts")
    make(project / name)
    result = ekiden("trust", "--yes")
    assert isinstance(result.exception, InvalidRequest)
    assert str(result.exception) == f"this cannot be granted: {said}"
    status = project_trust_of(project)
    assert [right.problem for right in status.lacking] == [said]
    assert not status.unasked  # nobody is asked again and again
    (project / name).rmdir() if (project / name).is_dir() else (project / name).unlink()
    assert fine("trust", "--yes").endswith("It is trusted: all of this is granted\n")


@pytest.mark.parametrize("make", [a_folder, a_pipe])
def test_why_a_tool_file_is_ignored_is_told_where_it_is_none(
    make: Callable[[Path], None], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(project / ".ekiden/tools/d.py")
    settle_trust(False)
    assert "ignored tool file d.py (d.py is " in capsys.readouterr().err
    assert not allowed_tool_files(project)
