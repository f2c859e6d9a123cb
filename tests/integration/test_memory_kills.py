"""Two workers save the same notes, and one of them is killed while it does."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.shared.memory.memories import Memories
from tests.doubles.letters import Letters
from tests.integration.saving import SHOP, store_at
from tests.servers import shared_url

COUNT = 25


async def emptied(place: str) -> None:
    async with store_at(place) as store:
        await store.drop(SHOP.id)


async def notes_at(place: str) -> list[str]:
    async with store_at(place) as store:
        return [note.content for note in await Memories(store, Letters()).all(SHOP)]


@pytest.mark.parametrize("is_server", [True, False], ids=["server", "files"])
def test_a_worker_that_is_killed_while_it_saves_leaves_nothing_half_and_nothing_twice(
    is_server: bool, tmp_path: Path
) -> None:
    place = shared_url() if is_server else str(tmp_path / "notes")
    asyncio.run(emptied(place))
    words = [sys.executable, "-m", "tests.integration.saving", place]
    first, second = (
        subprocess.Popen([*words, name, str(COUNT)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        for name in ("first", "second")
    )
    with first, second:
        assert first.stdout is not None
        for _ in range(3):
            assert first.stdout.readline()
        first.send_signal(signal.SIGKILL)
        second.communicate(timeout=60)
        assert second.returncode == 0

    notes = asyncio.run(notes_at(place))
    (who,) = [note for note in notes if note.endswith("y")]
    assert re.fullmatch(r"(first|second) \d+ y{3000}", who)
    assert sorted(set(notes) - {who}) == sorted(f"note {number} " + "x" * 3_000 for number in range(COUNT))
    assert len(notes) == COUNT + 1
