"""The real program on an embedded server of its own; nothing that it starts outlives a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.shared.embedded import attach
from tests.e2e.program import Program, program_in


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of real processes that fails is run once more, and the summary names it: machines are shared."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.flaky(reruns=1))


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
