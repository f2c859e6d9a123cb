"""Puts agent files in force as a catalog, and tells how one catalog differs from another."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ekiden.dispatcher.identity import login_name
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.errors import CatalogReplaced
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.stores.catalogs import InForce, Publication, RedisCatalogStore

__all__ = ["Difference", "difference", "lost_tools", "publish", "publish_own", "published_ago", "whoami"]

_NAMED = 10
"""Agents of a kind that are named in one line."""

log = LateLogger(__name__)


@dataclass(frozen=True)
class Difference:
    """What is other in a new catalog: the agents' names, sorted."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    changed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        return "; ".join(f"{kind} {_listed(names)}" for kind, names in kinds.items() if names) or "the same agents"


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> Difference:
    """Compare two maps name -> digest."""
    return Difference(
        added=sorted(new.keys() - old.keys()),
        removed=sorted(old.keys() - new.keys()),
        changed=sorted(name for name in new.keys() & old.keys() if new[name] != old[name]),
    )


def lost_tools(old: Mapping[str, AgentDefinition], new: Mapping[str, AgentDefinition]) -> dict[str, list[str]]:
    """Return which agents of both lose tools, and which: those that workers ship with, and those that were named."""
    lost = {name: _lost(old[name], new[name]) for name in sorted(old.keys() & new.keys())}
    return {name: tools for name, tools in lost.items() if tools}


def _lost(old: AgentDefinition, new: AgentDefinition) -> list[str]:
    named = old.tools.allow if old.tools is not None and old.tools.allow is not None else ()
    return sorted(tool for tool in BUILTIN_TOOLS.union(named) if old.permits(tool) and not new.permits(tool))


async def publish(catalogs: RedisCatalogStore, catalog: Catalog, replaces: str | None, command: str) -> bool:
    """Put ``catalog`` in force instead of ``replaces``; False: it was already. Raises ``CatalogReplaced``."""
    source = f"{command} in {Path.cwd()}"
    return await catalogs.publish(*catalog.to_store(), replaces=replaces, by=whoami(), source=source)


async def publish_own(catalogs: RedisCatalogStore, own: Catalog, *, is_wanted: bool) -> None:
    """Do what a dispatcher does with its own files when it starts, and say so.

    They come into force where nothing is, or where that ``is_wanted``, unless they are what was rolled back last: a
    restart undoes no rollback. Otherwise, and where somebody else was faster, it serves what is in force.
    """
    before = await catalogs.to_replace()
    newest = next(iter(await catalogs.history(1)), None)
    is_same = before is not None and before.digest == own.digest
    if before is None or (is_wanted and not _is_rolled_back(own, newest)) or (is_same and catalogs.signs):
        await _publish(catalogs, own, before)  # the same again is signed anew, with the key of now
    elif before.digest != own.digest:
        hint = f"rolled back {newest.when_and_who}; " if newest and _is_rolled_back(own, newest) else ""
        log.warning(
            "catalog_differs",
            in_force=before.digest[:12],
            files=str(difference(before.manifest, own.digests)),
            hint=f"{hint}the catalog in force is served; `ekiden catalog publish` puts these files in force",
        )


async def _publish(catalogs: RedisCatalogStore, own: Catalog, before: InForce | None) -> None:
    try:
        is_new = await publish(catalogs, own, before and before.digest, "dispatcher")
    except CatalogReplaced as error:
        log.error("catalog_not_published", error=str(error))
        return
    log.info("catalog_published", catalog=own.digest[:12], agents=len(own), is_new=is_new)


def published_ago(digest: str, history: Sequence[Publication], now_ms: int) -> str:
    """Return ``, published 13 min ago`` for the catalog in force; empty where nobody noted when."""
    if not history or history[0].digest != digest:
        return ""
    minutes = max(now_ms - history[0].at_ms, 0) / 60_000
    if minutes < 60:
        return f", published {minutes:.0f} min ago"
    return f", published {minutes / 60:.0f} h ago" if minutes < 2_880 else f", published {minutes / 1_440:.0f} days ago"


def whoami() -> str:
    """Return ``user@host``."""
    return f"{login_name() or '?'}@{socket.gethostname()}"


def _is_rolled_back(own: Catalog, newest: Publication | None) -> bool:
    return newest is not None and newest.is_rollback and newest.replaced == own.digest


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} others" if more > 0 else "")
