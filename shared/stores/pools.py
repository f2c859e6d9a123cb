"""Pool processes on Redis: each announces itself under a key with a short TTL."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, lists_only, translated
from ekiden.shared.stores.views import PoolView, ToolView

__all__ = ["QueueView", "RedisPoolStore"]


@dataclasses.dataclass(frozen=True)
class QueueView:
    """A queue: how many messages wait, and which pools consume it."""

    name: str
    waiting: int
    pools: tuple[str, ...]
    is_blocked: bool = False
    """Whether something else than a list stands under its name; whoever serves it puts that aside."""


class RedisPoolStore:
    """Announces pools and tells who is there."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def announce(self, pool: PoolView) -> None:
        """Say that ``pool`` is alive, for ``POOL_TTL_S``."""
        seconds, _ = await as_any(self._redis.time())
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.set(keys.pool(pool.id), json.dumps(dataclasses.asdict(pool)), ex=keys.POOL_TTL_S)
        pipeline.zadd(keys.POOLS, {pool.id: seconds * 1000})
        pipeline.zremrangebyscore(keys.POOLS, "-inf", (seconds - 4 * keys.POOL_TTL_S) * 1000)
        await pipeline.execute()

    @translated
    async def leave(self, pool_id: str) -> None:
        """Say that a pool is gone."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.delete(keys.pool(pool_id))
        pipeline.zrem(keys.POOLS, pool_id)
        await pipeline.execute()

    @translated
    async def announced_ms(self) -> dict[str, int]:
        """Return when each pool last said that it is alive, by its id."""
        rows = await as_any(self._redis.zrange(keys.POOLS, 0, -1, withscores=True))
        return {pool_id: int(score) for pool_id, score in rows}

    @translated
    async def pools(self) -> list[PoolView]:
        """Return the pools that are there now, by id."""
        ids = sorted(await as_any(self._redis.zrange(keys.POOLS, 0, -1)))
        texts = await as_any(self._redis.mget([keys.pool(pool_id) for pool_id in ids])) if ids else []
        return [_pool(json.loads(text)) for text in texts if text is not None]

    @translated
    async def oldest(self, queues: Sequence[str]) -> dict[str, str]:
        """Return the text of the message that has waited longest in each queue that is not empty."""
        pipeline = self._redis.pipeline(transaction=False)
        for queue in queues:
            pipeline.lindex(queue, -1)
        texts = lists_only(await pipeline.execute(raise_on_error=False)) if queues else []
        return {queue: text for queue, text in zip(queues, texts, strict=True) if text is not None}

    @translated
    async def pushed_to(self) -> set[str]:
        """Return every queue that a job was ever pushed to."""
        return set(await as_any(self._redis.smembers(keys.QUEUES)))

    @translated
    async def queues(self) -> list[QueueView]:
        """Return every queue that is consumed or was ever pushed to, by name; the intake while requests wait there."""
        pushed_to = await as_any(self._redis.smembers(keys.QUEUES))
        served: dict[str, list[str]] = {name: [] for name in (*pushed_to, keys.INTAKE)}
        for pool in await self.pools():
            for queue in (*pool.queues, *((keys.INTAKE,) if pool.kind == "dispatcher" else ())):
                served.setdefault(queue, []).append(pool.id)
        names = sorted(served)
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            pipeline.llen(name)
        lengths = lists_only(await pipeline.execute(raise_on_error=False))
        return [
            QueueView(name, length or 0, tuple(served[name]), is_blocked=length is None)
            for name, length in zip(names, lengths, strict=True)
            if length or name != keys.INTAKE
        ]

    @translated
    async def suspended(self) -> dict[str, int]:
        """Return how many jobs are suspended now, by cause."""
        pipeline = self._redis.pipeline(transaction=False)
        for cause in keys.CAUSES:
            pipeline.zcard(keys.suspended(cause))
        return dict(zip(keys.CAUSES, await pipeline.execute(), strict=True))


def _pool(fields: dict[str, Any]) -> PoolView:
    kept = _known(PoolView, fields)
    kept |= {name: tuple(kept.get(name, ())) for name in ("queues", "strategies", "problems")}
    return PoolView(**{**kept, "tools": tuple(map(_tool, kept.get("tools", ())))})


def _tool(announced: Any) -> ToolView:
    """Return the view of a tool; pools of an earlier version announce names alone."""
    return ToolView(**_known(ToolView, announced)) if isinstance(announced, dict) else ToolView(str(announced))


def _known(view: type[Any], fields: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(view)}
    return {key: value for key, value in fields.items() if key in names}
