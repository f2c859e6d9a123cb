"""Servers that are not there, or heed nothing, and are soon given up."""

from collections.abc import Iterator

import pytest

from ekiden.workers.mcp import connection, programs


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_AGAIN_S", 0.05)
        patch.setattr(connection, "_LOOK_S", 0.05)
        patch.setattr(programs, "_LEAVE_S", 0.2)
        yield
