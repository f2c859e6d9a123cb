"""A worker as a process of its own that saves notes: ``python -m tests.integration.saving PLACE NAME COUNT``.

``PLACE`` is a server's address, or a folder. Each note is the call of the same number, whoever makes it, and each time
the note under one key is replaced. A line is printed for each.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ekiden.shared.memory.base import MemoryStore, Namespace, Origin
from ekiden.shared.memory.files import FileMemoryStore
from ekiden.shared.memory.memories import Memories
from ekiden.shared.stores.opening import open_stores
from tests.doubles.letters import Letters

__all__ = ["SHOP", "store_at"]

SHOP = Namespace("shared", "shop")


@asynccontextmanager
async def store_at(place: str) -> AsyncIterator[MemoryStore]:
    """Give the store of a server, or of a folder."""
    if "://" not in place:
        yield FileMemoryStore(Path(place))
        return
    stores = open_stores(place)
    try:
        yield stores.memories
    finally:
        await stores.close()


async def save(place: str, name: str, count: int) -> None:
    """Save notes, one after the other."""
    async with store_at(place) as store:
        mine = Memories(store, Letters())
        for number in range(count):
            text = f"note {number} " + "x" * 3_000
            await mine.save(SHOP, text, origin=Origin(), once=f"call {number}")
            await mine.save(SHOP, f"{name} {number} " + "y" * 3_000, key="who", origin=Origin())
            print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(save(sys.argv[1], sys.argv[2], int(sys.argv[3])))
