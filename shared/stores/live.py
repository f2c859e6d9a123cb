"""The live stream of a job on Redis: capped, short-lived, never read by the relay itself."""

from collections.abc import Sequence

from ekiden.shared.stores import keys
from ekiden.shared.stores.job_reader import rows_of
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.views import LivePiece

__all__ = ["RedisLiveStore"]

MAX_PIECES = 2_000


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

    @translated
    async def read(self, job: str, after: str, *, wait_s: float) -> tuple[str, list[LivePiece]]:
        """Return the pieces behind ``after`` (``0`` for all) and the place to go on from, waiting for the first."""
        block = max(1, round(wait_s * 1000))
        rows = rows_of(await as_any(self._redis.xread({keys.live(job): after}, count=500, block=block)))
        pieces = [LivePiece.model_validate_json(fields["p"]) for _, fields in rows]
        return (rows[-1][0] if rows else after), pieces
