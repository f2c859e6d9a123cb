"""What is checked before anything starts."""

import io
from pathlib import Path

import pytest

from dispatcher.cli.request import Workplace, demo_project, prompt_of
from shared.errors import InvalidRequest


def test_the_workspace_is_the_given_folder_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    assert Workplace.of(inner, None) == Workplace(inner, inner)
    assert Workplace.of(inner, tmp_path) == Workplace(inner, tmp_path)
    with pytest.raises(InvalidRequest, match="lies outside --workspace-root"):
        Workplace.of(tmp_path, inner)


def test_a_link_that_leads_outside_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidRequest, match="lies outside"):
        Workplace.of(tmp_path / "root" / "link", tmp_path / "root")


def test_a_dash_reads_the_prompt_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    assert prompt_of("-") == "from a pipe\n"
    with pytest.raises(InvalidRequest, match="the prompt is empty"):
        prompt_of(" \n")


def test_the_demo_is_written_to_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = demo_project(), demo_project()
    assert first != second
    assert (first / "cart.py").is_file()
