"""Lets a server go back in time, without stopping it."""

from typing import Any

from redis import Redis

from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any

Memory = dict[str, Any]


async def remembered(stores: Stores) -> Memory:
    """What the server knows now."""
    known: Memory = {}
    async for key in stores.client.scan_iter():
        match await stores.client.type(key):
            case "hash":
                known[key] = await as_any(stores.client.hgetall(key))
            case "stream":
                known[key] = await stores.client.xrange(key)
            case "zset":
                known[key] = dict(await as_any(stores.client.zrange(key, 0, -1, withscores=True)))
            case "set":
                known[key] = await as_any(stores.client.smembers(key))
            case "list":
                known[key] = await as_any(stores.client.lrange(key, 0, -1))
            case "string":
                known[key] = await stores.client.get(key)
    return known


async def rewind(stores: Stores, known: Memory) -> None:
    """Let the server know only that, as after a failover."""
    await stores.client.flushall()
    for key, value in known.items():
        match value:
            case dict() if all(isinstance(score, float) for score in value.values()):
                await stores.client.zadd(key, value)
            case dict():
                await as_any(stores.client.hset(key, mapping=value))
            case set():
                await as_any(stores.client.sadd(key, *value))
            case [(_, dict()), *_]:
                for entry, fields in value:
                    await stores.client.xadd(key, fields, id=entry)
            case list():
                await as_any(stores.client.rpush(key, *value))
            case _:
                await stores.client.set(key, value)
        if not keys.is_permanent(key):
            await stores.client.expire(key, 1000)


class Snapshot:
    """All that a real server has now, for tests of who reads it meanwhile: it goes back in one step."""

    def __init__(self, url: str) -> None:
        self._server = Redis.from_url(url)
        self._keys = {key: self._server.dump(key) or b"" for key in self._server.scan_iter()}

    def restore(self) -> None:
        """Let the server have that again and nothing else; every client loses its connection, as in a failover."""
        with self._server.pipeline(transaction=True) as pipeline:
            pipeline.flushall()
            for key, value in self._keys.items():
                pipeline.restore(key, 3_600_000, value)
            pipeline.client_kill_filter(_type="normal", skipme=True)
            pipeline.execute()
