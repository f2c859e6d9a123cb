"""A home and a project for the tests of trust, in which nothing is trusted."""

from pathlib import Path

import pytest

from shared.trust import telling


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is the current folder, beside an empty home folder."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(telling, "_told", set())
    monkeypatch.setattr(telling, "_taken_over", set())
    return tmp_path / "project"
