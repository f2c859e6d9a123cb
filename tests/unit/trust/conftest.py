"""A home and a project for the tests of trust, in which nothing is trusted."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.shared.once import Once
from ekiden.shared.trust import notices
from tests.doubles.command_line import make_apps_once

make_apps_once()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project, which is the current folder, beside an empty home folder; the environment is the test's own."""
    before = dict(os.environ)
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(notices, "_told", Once())
    monkeypatch.setattr(notices, "_advised", Once())
    monkeypatch.setattr(notices, "_taken_over", set())
    yield tmp_path / "project"
    os.environ.clear()
    os.environ.update(before)
