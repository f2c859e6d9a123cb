"""Names of MCP tools: as agent files write them, and as models may call them. A flat name is never taken apart."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

__all__ = ["announced_as", "full_name", "model_names", "plain_names"]

K = TypeVar("K")
_LONGEST = 64
"""Characters: what the strictest provider takes."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
_DIGITS = 16
"""Of a digest: so many that nobody finds another tool with the same."""
_LIKE_A_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z", re.IGNORECASE)


def full_name(server: str, tool: str) -> str:
    """Return ``mcp.<server>.<tool>``, which agent files and rules name."""
    return f"mcp.{server}.{tool}"


def announced_as(server: str) -> str:
    """Return what stands for a server among the tools that workers have."""
    return f"mcp.{server}"


def model_names(pairs: Iterable[tuple[str, str]], servers: Iterable[str] = ()) -> dict[tuple[str, str], str]:
    """Return what models call each (server, tool): letters, digits and underscores, each name once.

    A tool keeps its name whatever else is listed: what was approved under it means no other tool when a server is down.
    So all tools of servers that could share names (``git`` and ``git_hub``) carry a digest.

    Args:
        pairs: All tools that are listed.
        servers: The servers that might list others, those that cannot be reached now too.
    """
    named = {pair: f"mcp_{pair[0]}_{pair[1]}" for pair in dict.fromkeys(pairs)}
    alike = _alike({*servers, *(server for server, _ in named)})
    return _unique({pair: ("\0".join(pair), name) for pair, name in named.items()}, (), lambda pair: pair[0] in alike)


def _alike(servers: Collection[str]) -> set[str]:
    """Return the servers of which one's tools can be called as another's."""
    flat = {server: f"{_NOT_PLAIN.sub('_', server)}_".casefold() for server in servers}
    return {
        one
        for one in servers
        if any(
            one != other and (flat[one].startswith(flat[other]) or flat[other].startswith(flat[one])) for other in flat
        )
    }


def plain_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return for each name one of letters, digits and underscores that no other has, nor any of ``taken``."""
    return _unique({name: (name, name) for name in dict.fromkeys(names)}, taken)


def _unique(
    named: Mapping[K, tuple[str, str]], taken: Iterable[str], is_unclear: Callable[[K], bool] = lambda _: False
) -> dict[K, str]:
    """Make names plain. Those that are too long, or could be another's, carry a digest of what they stand for."""
    flat = {key: (what, _NOT_PLAIN.sub("_", name)) for key, (what, name) in named.items()}
    seen = Counter([*(name.casefold() for _, name in flat.values()), *taken])

    def is_clear(key: K, name: str) -> bool:
        is_short = len(name) <= _LONGEST and seen[name.casefold()] == 1
        return is_short and not _LIKE_A_DIGEST.search(name) and not is_unclear(key)

    return {key: name if is_clear(key, name) else _with_digest(name, what) for key, (what, name) in flat.items()}


def _with_digest(name: str, what: str) -> str:
    return f"{name[: _LONGEST - _DIGITS - 1]}_{hashlib.sha256(what.encode()).hexdigest()[:_DIGITS]}"
