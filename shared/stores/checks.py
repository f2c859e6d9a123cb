"""Whether what answers at an address is a server that Ekiden can run on, and what to do when it is not.

``ping`` is everybody's first question. ``check`` is asked once by every pool process, and by a client before it
submits for the first time: a server that is too old, or that throws jobs away when it is full, is refused then.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from ekiden.shared.addresses import without_password
from ekiden.shared.errors import ConfigurationError, StoreUnavailable
from ekiden.shared.stores.driver import exceptions
from ekiden.shared.stores.durability import durability_of, info_of
from ekiden.shared.stores.redis import Redis, translated

__all__ = ["check", "health_problem", "ping"]

OLDEST = 7
"""The first major version with all that the scripts need (``EXPIRE … NX``). Valkey reports the Redis it equals."""
_PORT = 6379
_SLOW_S = 2.0
"""When an answer over TLS is late: a server without TLS waits for ever for the rest of a greeting it cannot read."""
_PROBE_S = 1.0


async def ping(client: Redis, url: str) -> None:
    """Return when the server at ``url`` answers.

    Raises:
        StoreUnavailable: nobody answers, or somebody who is no Redis server; the message says what to do.
        ConfigurationError: it wants a password, or TLS, or no TLS.
    """
    answer = asyncio.create_task(translated(client.ping)())
    try:
        await asyncio.wait({answer}, timeout=_SLOW_S)
        if not answer.done() and url.startswith("rediss:"):
            await _refuse_wrong_scheme(url)
        await answer
    except StoreUnavailable as error:
        await _refuse_wrong_scheme(url)
        raise _explained(error, url) from error
    finally:
        answer.cancel()
        await asyncio.wait({answer})


@translated
async def check(client: Redis, url: str, wait_replicas: int = 0) -> list[str]:
    """Return what to warn those of who run pools on this server; it has answered before.

    ``wait_replicas``: how many replicas commits are to wait for. What a server does not tell (managed ones often forbid
    ``CONFIG``) is taken for good.

    Raises ``ConfigurationError`` for a server that is too old or may evict jobs.
    """
    where = without_password(url)
    info = await info_of(client, "server", "memory")
    _require_version(info, where)
    _require_no_eviction(info, where)
    keeps = await durability_of(client)
    advice = []
    if keeps.keeps_nothing:
        advice.append(
            f"the Redis server at {where} keeps nothing on disk: its jobs are lost when it ends; "
            "keep them with CONFIG SET appendonly yes"
        )
    if keeps.replicas is not None and keeps.replicas < wait_replicas:
        advice.append(
            f"the Redis server at {where} has {keeps.replicas} replicas, and commits are to wait for {wait_replicas}: "
            "they go on unconfirmed; connect more, or lower ekiden.wait_replicas"
        )
    return advice


@translated
async def health_problem(client: Redis) -> str | None:
    """Say why the server takes no writes just now, and what to do; None when it does."""
    info = await info_of(client, "persistence")
    if "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")):
        return "the server cannot write to its disk: make room there, then everything goes on by itself"
    if (await durability_of(client)).lacks_replicas:
        return (
            "the server takes no writes, because too few of its replicas are well (min-replicas-to-write): "
            "bring them back, then everything goes on by itself"
        )
    return None


def _require_version(info: Mapping[str, Any], where: str) -> None:
    version = str(info.get("redis_version", ""))
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < OLDEST:
        raise ConfigurationError(
            f"the Redis server at {where} has version {version}: Ekiden needs Redis {OLDEST} or later, or Valkey"
        )


def _require_no_eviction(info: Mapping[str, Any], where: str) -> None:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and int(info.get("maxmemory", 0)):
        raise ConfigurationError(
            f"the Redis server at {where} throws jobs away when it is full (maxmemory-policy {policy}): "
            "CONFIG SET maxmemory-policy noeviction"
        )


def _explained(error: StoreUnavailable, url: str) -> StoreUnavailable | ConfigurationError:
    where, text = without_password(url), str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ConfigurationError(
            f"the certificate of the server at {where} is not trusted: name its authority in the address, "
            "?ssl_ca_certs=FILE"
        )
    if isinstance(error.__cause__, exceptions.InvalidResponse):
        return StoreUnavailable(f"what answers at {where} is no Redis server ({text}): check host and port")
    return StoreUnavailable(f"no Redis server answers at {where} ({text}): start one, or set EKIDEN_REDIS_URL")


async def _refuse_wrong_scheme(url: str) -> None:
    """Raise ``ConfigurationError`` if the server speaks TLS and the address says it does not, or the reverse."""
    parts = urlsplit(url)
    host, port, where = parts.hostname or "localhost", parts.port or _PORT, without_password(url)
    if parts.scheme == "rediss" and await _answers_plainly(host, port):
        raise ConfigurationError(f"the Redis server at {where} speaks no TLS: write redis:// in place of rediss://")
    if parts.scheme == "redis" and await _speaks_tls(host, port):
        raise ConfigurationError(f"the server at {where} speaks TLS: write rediss:// in place of redis://")


async def _answers_plainly(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"PING\r\n")
                return (await reader.read(1)) in (b"+", b"-")  # PONG, or that it wants a password
            finally:
                await _hang_up(writer)
    except (OSError, TimeoutError):
        return False


async def _speaks_tls(host: str, port: int) -> bool:
    anyone = ssl.create_default_context()
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE  # nothing is sent: it is only asked which protocol the server speaks
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=anyone)
            await _hang_up(writer)
            return True
    except (OSError, TimeoutError):
        return False


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close at once: a farewell over TLS may never be answered."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
