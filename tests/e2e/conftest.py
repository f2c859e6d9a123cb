"""The real program on an embedded server of its own; nothing that it starts outlives a test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.embedded import attach
from tests.e2e.program import Program


@pytest.fixture
def ekiden(tmp_path: Path) -> Iterator[Program]:
    folder, home, temporary = tmp_path / "folder", tmp_path / "home", tmp_path / "tmp"
    for path in (folder, home, temporary):
        path.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("EKIDEN_", "LC_"))}
    env |= {"HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}
    env["EKIDEN_DATA_DIR"] = str(tmp_path / "data")
    program = Program(folder, env)
    try:
        yield program
    finally:
        program.end_all()
    program.wait_until_gone()


@pytest.fixture
def redis_url(ekiden: Program, tmp_path: Path) -> Iterator[str]:
    """A server that is nobody's embedded one."""
    with attach(tmp_path / "server") as attachment:
        ekiden.env["EKIDEN_REDIS_URL"] = attachment.url
        yield attachment.url
        ekiden.end_all()
