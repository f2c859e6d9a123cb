"""What a worker lacks for a leg: whether another one has it, or nobody here ever will."""

import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.mcp.names import announced_as
from ekiden.shared.outcomes import Failed, Suspended
from ekiden.shared.records import Forked, LegSuspended, Retried
from ekiden.shared.relay.leg import Leg, backoff_s
from ekiden.shared.relay.message import queue_for
from ekiden.shared.stores.views import PoolView
from ekiden.shared.suggestions import nearest

__all__ = ["Lacking", "Pools", "lacking_folder", "lacking_tools", "nobody_else", "why_not_here"]

LOOKS = 5
"""How often a leg is given back for what no announced pool has, before its job fails: that takes 15 s, within which a
pool that is restarted is back."""
_ALIKE = 0.75
"""How like a tool's name an entry is that is taken for a misspelt one."""

Pools = Callable[[], Awaitable[Sequence[PoolView]]]
"""Returns the pools that are there now."""


class Lacking(NamedTuple):
    """What is missing and worth waiting for, in words."""

    what: str
    remedy: str = ""
    """What somebody may do about it, where no pool has it; empty: one has, or may have."""

    def outcome(self, leg: Leg) -> Suspended | Failed:
        """Give the leg back for as long as somebody may have it; then the job fails."""
        if self.remedy and _looks(leg) >= LOOKS:
            return Failed("ERROR", f"agent {leg.agent!r} lacks {self.what}. {self.remedy}")
        return Suspended("missing_tools", backoff_s(leg, "missing_tools"), self.what)


def lacking_tools(
    entries: Collection[str], leg: Leg, pools: Sequence[PoolView], *, has_root: bool
) -> tuple[list[str], Lacking | None]:
    """Tell which ``entries`` of the agent's file, which this worker has not, are gone without, and what is lacking.

    Gone without is what nobody has and is like no tool's name: it is another program's, or its server is away.
    """
    serving = _names(pool for pool in pools if queue_for(leg.agent) in pool.queues)
    known = BUILTIN_TOOLS | _names(pools)
    misspelt = {entry: near for entry in entries if not _has(known, entry) and (near := _meant(entry, known))}
    wanted = [entry for entry in entries if _has(BUILTIN_TOOLS | serving, entry)]
    without = [entry for entry in entries if entry not in misspelt and entry not in wanted]
    if misspelt:
        names = ", ".join(f"{entry!r} (did you mean {near!r}?)" for entry, near in misspelt.items())
        return without, Lacking(f"tools {names}", "No worker has a tool of that name: correct the agent's file")
    if not wanted:
        return without, None
    what = f"tools {', '.join(wanted)}" + ("" if has_root else " (this worker has no --workspace-root)")
    is_there = all(_has(serving, entry) for entry in wanted)
    remedy = f"No running worker of that agent has them: start {_with_root('DIR')}, then `ekiden job retry {leg.job}`"
    return without, Lacking(what, "" if is_there else remedy)


def why_not_here(leg: Leg, root: Path) -> str:
    """Say why tools of this worker cannot work in the job's folder; empty: they can."""
    folder = Path(leg.cwd)
    if not folder.resolve().is_relative_to(root):
        return f"this worker's --workspace-root is {root}"
    return "" if folder.is_dir() else "there is no such folder on this worker's machine"


def lacking_folder(leg: Leg, why: str, pools: Sequence[PoolView]) -> Lacking:
    """Tell of the job's folder, in which tools of this worker cannot work."""
    may_be = any(_may_work_in(pool, Path(leg.cwd)) for pool in pools if queue_for(leg.agent) in pool.queues)
    start = f"start {_with_root(leg.cwd)} on a machine that has it, then `ekiden job retry {leg.job}`"
    remedy = f"No running worker of that agent may work there: give a folder where one may, or {start}"
    return Lacking(f"folder {leg.cwd} ({why})", "" if may_be else remedy)


async def nobody_else() -> Sequence[PoolView]:
    """See ``Pools``."""
    return ()


def _looks(leg: Leg) -> int:
    """Count how often the leg has been given back for what nobody has, since it began or somebody retried the job."""
    recent = takewhile(lambda record: not isinstance(record, Forked | Retried), reversed(leg.records))
    return sum(isinstance(record, LegSuspended) and record.cause == "missing_tools" for record in recent)


def _names(pools: Iterable[PoolView]) -> frozenset[str]:
    """Return what the pools announce: tools, and MCP servers as ``mcp.<server>``."""
    return frozenset(
        name for pool in pools for name in (*(tool.name for tool in pool.tools), *map(announced_as, pool.servers))
    )


def _has(names: Collection[str], entry: str) -> bool:
    return any(fnmatchcase(name, entry) for name in names)


def _meant(entry: str, known: Collection[str]) -> str:
    """Return the name that is misspelt in an entry; empty: none is."""
    is_name = entry.isidentifier()  # neither a pattern nor a server's
    return next(iter(nearest(entry, sorted(known), n=1, cutoff=_ALIKE)), "") if is_name else ""


def _may_work_in(pool: PoolView, folder: Path) -> bool:
    """Tell whether a pool may work in a folder: what is on another machine's disk cannot be seen from here."""
    root = Path(pool.workspace_root or "")
    if not pool.workspace_root or not root.is_absolute():
        return bool(pool.workspace_root)
    if pool.host != socket.gethostname():
        return folder.is_relative_to(root)
    return folder.is_dir() and folder.resolve().is_relative_to(root.resolve())


def _with_root(folder: str) -> str:
    return f"`ekiden worker --workspace-root {quote(folder)}`"
