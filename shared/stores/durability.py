"""What a server tells of itself, and what follows for what it has acknowledged: what may be lost with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.shared.stores.driver import exceptions
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["Durability", "Identity", "durability_of", "identity_of", "info_of"]

_ASKED = ("appendfsync", "no-appendfsync-on-rewrite", "save", "min-replicas-to-write", "min-replicas-max-lag")


@dataclass(frozen=True)
class Durability:
    """How a server keeps what it has acknowledged; None: it does not tell."""

    appendonly: bool | None = None
    fsync: str | None = None
    """``always``, ``everysec`` or ``no``."""
    syncs_in_rewrites: bool | None = None
    snapshots: str | None = None
    """When they are taken, as ``save`` has it; empty: never."""
    replicas: int | None = None
    """Those that are connected."""
    behind_bytes: int | None = None
    """How much of the replication the one furthest ahead has not said it has."""
    min_replicas: int | None = None
    """How many must be well for the server to take writes."""
    max_lag_s: int | None = None
    """For how long a silent replica is taken for well."""
    good_replicas: int | None = None
    """Those that are well; only told where some must be."""

    @property
    def keeps_nothing(self) -> bool:
        """Whether nothing at all gets to a disk, as far as the server tells."""
        return self.appendonly is False and self.snapshots == ""

    @property
    def lacks_replicas(self) -> bool:
        """Whether the server takes no writes because too few replicas are well."""
        return self.good_replicas is not None and self.good_replicas < (self.min_replicas or 0)


@dataclass(frozen=True)
class Identity:
    """Which server answers, and how far it has come."""

    run_id: str
    """New with each start of a server."""
    replication_id: str
    """New with each promotion."""
    offset: int
    """How much it has replicated."""

    def goes_on_from(self, earlier: "Identity") -> bool:
        """Tell whether this server has all that it had when it told ``earlier``, for all that it tells."""
        same = (self.run_id, self.replication_id) == (earlier.run_id, earlier.replication_id)
        return same and self.offset >= earlier.offset


@translated
async def identity_of(client: Redis) -> Identity | None:
    """Ask the server who it is; None: it does not tell."""
    info = await info_of(client, "server", "replication")
    try:
        return Identity(str(info["run_id"]), str(info["master_replid"]), int(info["master_repl_offset"]))
    except KeyError:
        return None


@translated
async def durability_of(client: Redis) -> Durability:
    """Ask the server; what it does not tell (managed ones often forbid ``CONFIG``) is None."""
    info = await info_of(client, "persistence", "replication")
    told = await _config(client)
    replicas = _replicas(info)
    syncs = told.get("no-appendfsync-on-rewrite")
    return Durability(
        appendonly=bool(info["aof_enabled"]) if "aof_enabled" in info else None,
        fsync=told.get("appendfsync"),
        syncs_in_rewrites=None if syncs is None else syncs == "no",
        snapshots=told.get("save"),
        replicas=None if replicas is None else len(replicas),
        behind_bytes=int(info.get("master_repl_offset", 0)) - max(replicas) if replicas else None,
        min_replicas=_number(told.get("min-replicas-to-write")),
        max_lag_s=_number(told.get("min-replicas-max-lag")),
        good_replicas=_number(info.get("min_slaves_good_slaves")),
    )


async def info_of(client: Redis, *sections: str) -> dict[str, Any]:
    """Ask for one section at a time: several in one command are newer than the servers to be refused.

    Empty where the server tells nothing.
    """
    pipeline = client.pipeline(transaction=False)
    for section in sections:
        pipeline.info(section)
    replies = await pipeline.execute(raise_on_error=False)
    return {name: value for one in replies if isinstance(one, Mapping) for name, value in one.items()}


async def _config(client: Redis) -> dict[str, str]:
    try:
        return dict(await as_any(client.config_get(*_ASKED)))
    except exceptions.ResponseError:
        return {}


def _replicas(info: Mapping[str, Any]) -> list[int] | None:
    """Return up to where each connected replica says it is; None: the server does not tell."""
    count = _number(info.get("connected_slaves"))
    if count is None:
        return None
    found = [info.get(f"slave{n}") for n in range(count)]
    return [int(one["offset"]) for one in found if isinstance(one, Mapping) and one.get("state") == "online"]


def _number(text: Any) -> int | None:
    return None if text is None else int(text)
