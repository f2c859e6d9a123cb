"""What is made of a catalog once, in the background, and kept for a while."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from ekiden.dispatcher.routing.catalog_cache import KEPT, CatalogCache
from ekiden.shared.errors import CatalogNotReady


class Maker:
    """Makes things when it is let to, and counts."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.failure: Exception | None = None

    def of(self, name: str) -> Callable[[], Coroutine[None, None, str]]:
        async def make() -> str:
            self.made.append(name)
            self.began.set()
            await self.may_end.wait()
            if self.failure is not None:
                raise self.failure
            return f"the {name}"

        return make


def test_a_thing_is_made_once_however_many_wait_for_it() -> None:
    async def scenario() -> None:
        maker, recent = Maker(), CatalogCache[str]()
        waiting = [asyncio.create_task(recent.get("a", maker.of("a"))) for _ in range(5)]
        maker.may_end.set()
        assert await asyncio.gather(*waiting) == ["the a"] * 5
        assert await recent.get("a", maker.of("a")) == "the a"
        assert maker.made == ["a"]

    asyncio.run(scenario())


def test_who_has_no_more_patience_is_told_so_and_it_is_made_all_the_same() -> None:
    async def scenario() -> None:
        maker, recent = Maker(), CatalogCache[str](max_wait_s=0.01)
        with pytest.raises(CatalogNotReady, match="the agents are new here and still being read"):
            await recent.get("a", maker.of("a"))
        maker.may_end.set()
        assert await recent.get("a", maker.of("a")) == "the a"
        assert maker.made == ["a"]

    asyncio.run(scenario())


def test_who_stops_waiting_stops_it_for_nobody_else() -> None:
    async def scenario() -> None:
        maker, recent = Maker(), CatalogCache[str]()
        first, second = (asyncio.create_task(recent.get("a", maker.of("a"))) for _ in range(2))
        await maker.began.wait()
        first.cancel()
        maker.may_end.set()
        assert await second == "the a"
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(scenario())


def test_what_failed_is_made_anew_when_it_is_asked_for_again() -> None:
    async def scenario() -> None:
        maker, recent = Maker(), CatalogCache[str]()
        maker.may_end.set()
        maker.failure = ValueError("no")
        with pytest.raises(ValueError, match="no"):
            await recent.get("a", maker.of("a"))
        maker.failure = None
        assert await recent.get("a", maker.of("a")) == "the a"

    asyncio.run(scenario())


def test_the_last_few_that_were_asked_for_are_kept() -> None:
    async def scenario() -> None:
        maker, recent = Maker(), CatalogCache[str]()
        maker.may_end.set()
        names = [f"c{number}" for number in range(KEPT)]
        for name in (*names, names[0], "new", *names):
            await recent.get(name, maker.of(name))
        assert maker.made == [*names, "new", names[1], names[2]], (
            "the first was asked for again before the new one came"
        )

    asyncio.run(scenario())
