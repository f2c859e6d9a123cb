"""What jobs keep beside their journals on Redis: long results of tools, and files that they made."""

import base64
import hashlib

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisArtifactStore"]

MOST_BYTES = 50_000_000
"""Of one job."""
_TOTAL = "kept_bytes"
_TEXT, _BYTES = "t", "b"


class RedisArtifactStore:
    """Keeps and reads what a job refers to; it lives as long as the job's journal."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def keep(self, job: str, content: str | bytes) -> str | None:
        """Keep ``content`` and return its reference; None: the job has kept as much as it may."""
        is_text = isinstance(content, str)
        data = content.encode(errors="replace") if isinstance(content, str) else content
        ref = hashlib.sha256(data).hexdigest()[:32]
        stored = _TEXT + data.decode() if is_text else _BYTES + base64.b64encode(data).decode()
        if await as_any(self._redis.hincrby(keys.blobs(job), _TOTAL, len(stored))) > MOST_BYTES:
            await as_any(self._redis.hincrby(keys.blobs(job), _TOTAL, -len(stored)))
            return None
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(keys.blobs(job), ref, stored)
        pipeline.expire(keys.blobs(job), keys.SESSION_TTL_S, nx=True)
        pipeline.hdel(keys.job(job), "kept_ms")  # so that the next claim looks after a key that may be new
        await pipeline.execute()
        return ref

    @translated
    async def read(self, job: str, ref: str) -> str | bytes | None:
        """Return what was kept under ``ref``; None: nothing was, or it is not what was kept."""
        stored: str | None = await as_any(self._redis.hget(keys.blobs(job), ref)) if len(ref) == 32 else None
        if stored is None:
            return None
        text = stored[1:]
        data = text.encode() if stored.startswith(_TEXT) else base64.b64decode(text)
        if hashlib.sha256(data).hexdigest()[:32] != ref:
            return None
        return text if stored.startswith(_TEXT) else data
