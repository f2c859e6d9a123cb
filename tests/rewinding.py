"""A server that goes back in time, in one step: what a crash of its host or a failover does to it."""

from redis import Redis

__all__ = ["Snapshot"]


class Snapshot:
    """All that a server has now."""

    def __init__(self, url: str) -> None:
        self._server = Redis.from_url(url)
        self._keys = {key: self._server.dump(key) or b"" for key in self._server.scan_iter()}

    def restore(self) -> None:
        """Let the server have that again and nothing else; every client loses its connection, as it would."""
        with self._server.pipeline(transaction=True) as pipeline:
            pipeline.flushall()
            for key, value in self._keys.items():
                pipeline.restore(key, 3_600_000, value)
            pipeline.client_kill_filter(_type="normal", skipme=True)
            pipeline.execute()
