"""What a command says of the folder that its jobs work in."""

from pathlib import Path

import pytest

from ekiden.dispatcher.local.access import EmbeddedAccess, own_pools
from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.project_tools import FOLDER


def test_tools_of_a_folder_that_jobs_merely_work_in_are_told_of_as_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        (folder / FOLDER).mkdir(parents=True)
        (folder / FOLDER / "orders.py").write_text("")
    monkeypatch.chdir(here)
    monkeypatch.setattr(Stack, "start", lambda self, kind: None)
    access = EmbeddedAccess("unix:///s", tmp_path, [])
    with own_pools(access, here, here):
        assert "not loaded" not in capsys.readouterr().err
    with own_pools(access, there, there):
        said = capsys.readouterr().err
    assert f"the tools of {str(there)!r} (orders.py) are not loaded: start it in that folder" in said
