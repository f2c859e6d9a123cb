"""What is checked before anything starts."""

import io
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.running.request import (
    Workspace,
    deadline_of,
    demo_project,
    folder_there,
    piped,
    prompt_of,
    user_name,
)
from ekiden.shared.errors import InvalidRequest


def test_the_workspace_is_the_given_folder_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    assert Workspace.of(inner, None) == Workspace(inner, inner)
    assert Workspace.of(inner, tmp_path) == Workspace(inner, tmp_path)
    with pytest.raises(InvalidRequest, match="lies outside --workspace-root"):
        Workspace.of(tmp_path, inner)


def test_a_link_that_leads_outside_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidRequest, match="lies outside"):
        Workspace.of(tmp_path / "root" / "link", tmp_path / "root")


def test_a_folder_meant_from_here_must_be_here_and_another_may_be_where_the_workers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    assert folder_there(Path("project")) == tmp_path / "project"
    assert folder_there(Path("/srv/on/their/machine")) == Path("/srv/on/their/machine")
    with pytest.raises(InvalidRequest, match="is no folder: did you mean 'project'"):
        folder_there(Path("projekt"))


def test_a_dash_reads_the_prompt_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe\n")))
    assert prompt_of(["what", "is", "-"]) == "what is from a pipe\n"
    with pytest.raises(InvalidRequest, match="the prompt is empty"):
        prompt_of([" \n"])


def test_only_a_pipe_or_a_file_is_read_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "request").write_text("fix it")
    for path, words in ((tmp_path / "request", ["fix it"]), (Path("/dev/null"), [])):
        with path.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert piped() == words
    monkeypatch.setattr("sys.stdin", io.StringIO("of no file"))
    assert piped() == []


def test_the_demo_is_written_to_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = demo_project(), demo_project()
    assert first != second
    assert (first / "cart.py").is_file()


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("0.5d", 43_200)])
def test_a_deadline_is_a_duration_with_units(text: str, seconds: float) -> None:
    assert deadline_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "5 m", "0s", "soon", "9999999d"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidRequest, match="90s, 30m, 1h30m"):
        deadline_of(text)


def test_the_settings_say_the_deadline_and_the_user_where_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_JOB_DEADLINE_S", "42")
    assert deadline_of(None) == 42
    monkeypatch.setenv("LOGNAME", "login")
    assert user_name(None) == "login"
    monkeypatch.setenv("EKIDEN_USER", "ada")
    assert user_name(None) == "ada"
    assert user_name("grace") == "grace"
