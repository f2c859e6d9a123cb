"""The ends of jobs, for those who wait for them: published as they come, and looked for every so often.

A script that ends a job publishes that, on a channel of the job's own. What is published is lost with a connection, so
that it is a hint and no more: whoever hears it looks at the job.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ekiden.shared.errors import EkidenError
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import PipelinedRedis, Redis, as_any, translated
from ekiden.shared.stores.views import TERMINAL

__all__ = ["RedisEnds"]

LOOK_S = 2.0
"""How often all jobs that somebody waits for are looked at, in one round trip."""


class RedisEnds:
    """Tells those who wait for a job when it may have ended; all of them share one connection. One event loop only."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def news_of(self, job: str) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever ``job`` may have ended, from now on: look at it first."""
        news = asyncio.Event()
        self._waiting.setdefault(job, set()).add(news)
        try:
            self._listener.listen(f"{keys.ENDED}{job}", lambda: self._tell([job]))  # or it is looked for all the same
            if self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._keep_looking())
            yield news
        finally:
            self._waiting[job].discard(news)
            if not self._waiting[job]:
                del self._waiting[job]
                self._listener.unlisten(f"{keys.ENDED}{job}")

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    @property
    def _listener(self) -> PipelinedRedis:
        assert isinstance(self._redis, PipelinedRedis), "nothing is published on a stand-in for a server"
        return self._redis

    def _tell(self, jobs: Collection[str]) -> None:
        for news in [news for job in jobs for news in self._waiting.get(job, ())]:
            news.set()

    async def _keep_looking(self) -> None:
        while self._waiting:
            await asyncio.sleep(LOOK_S)
            jobs = list(self._waiting)
            try:
                self._tell(await self._over(jobs))
            except EkidenError:
                self._tell(jobs)  # each finds out by itself what is wrong

    @translated
    async def _over(self, jobs: Collection[str]) -> list[str]:
        """Return those of ``jobs`` that are over, or gone."""
        asked = (as_any(self._redis.hget(keys.job(job), "status")) for job in jobs)
        found = zip(jobs, await asyncio.gather(*asked), strict=True)
        return [job for job, status in found if status is None or status in TERMINAL]
