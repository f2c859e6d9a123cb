"""What a command says of the folder that its jobs work in."""

from pathlib import Path

import pytest

from ekiden.dispatcher.local.access import EmbeddedAccess, own_pools
from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_tools import FOLDER
from ekiden.shared.settings.files import global_file


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


def test_a_hook_that_no_pool_starts_with_is_told_before_there_is_a_job_or_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Stack, "start", lambda self, kind: pytest.fail("a pool was started"))
    global_file().parent.mkdir()
    global_file().write_text('{\n"hooks": {"BeforeTool": [\n{"command": "x"},\n{"comand": "x"}\n]}}')
    told = pytest.raises(ConfigurationError, match=r"settings\.json:4: 'hooks': 'comand' of entry 2 of BeforeTool")
    with told, own_pools(EmbeddedAccess("unix:///s", tmp_path, []), tmp_path, tmp_path):
        pytest.fail("there are pools")
