"""The live stream of a job on Redis: capped, short-lived, never read by the relay itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.shared.stores import keys
from ekiden.shared.stores.job_reader import Rows, rows_by_stream
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.views import LivePiece

__all__ = ["LiveRead", "RedisLiveStore"]

MAX_PIECES = 2_000
LiveRead = tuple[str, list[LivePiece]]
"""The place to go on from, and the pieces before it."""


class RedisLiveStore:
    """Appends to and reads live streams."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def append(self, job: str, pieces: Sequence[LivePiece]) -> None:
        """Add pieces; the oldest go once there are many."""
        pipeline = self._redis.pipeline(transaction=False)
        for piece in pieces:
            pipeline.xadd(keys.live(job), {"p": piece.model_dump_json()}, maxlen=MAX_PIECES, approximate=True)
        pipeline.expire(keys.live(job), keys.LIVE_TTL_S)
        await pipeline.execute()

    async def read(self, job: str, after: str, *, wait_s: float) -> LiveRead:
        """Return the pieces behind ``after`` (``0`` for all) and the place to go on from, waiting for the first."""
        return (await self.read_all({job: after}, wait_s=wait_s)).get(job, (after, []))

    @translated
    async def read_all(self, places: Mapping[str, str], *, wait_s: float) -> dict[str, LiveRead]:
        """Return the same of those jobs of a session, each from its place, that have written."""
        streams = {keys.live(job): job for job in places}
        asked: dict[Any, Any] = {stream: places[job] for stream, job in streams.items()}
        block = max(1, round(wait_s * 1000))
        found = rows_by_stream(await as_any(self._redis.xread(asked, count=500, block=block)))
        return {streams[stream]: _read(rows) for stream, rows in found.items() if rows}


def _read(rows: Rows) -> LiveRead:
    return rows[-1][0], [LivePiece.model_validate_json(fields["p"]) for _, fields in rows]
