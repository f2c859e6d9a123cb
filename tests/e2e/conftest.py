"""The real program on an embedded server of its own; nothing that it starts outlives a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.shared.embedded import attach
from tests.e2e.program import Program, all_gone, program_in
from tests.warm import warm

__all__ = ["all_gone", "ekiden", "redis_url", "warm"]


@pytest.fixture
def ekiden(tmp_path: Path) -> Iterator[Program]:
    with program_in(tmp_path) as program:
        yield program


@pytest.fixture
def redis_url(ekiden: Program, tmp_path: Path) -> Iterator[str]:
    """A server that is nobody's embedded one."""
    with attach(tmp_path / "server") as attachment:
        ekiden.env["EKIDEN_REDIS_URL"] = attachment.url
        yield attachment.url
        ekiden.end_all()
