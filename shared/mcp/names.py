"""Names of MCP tools: as agent files write them, and as models may call them. A flat name is never taken apart."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = ["announced_as", "full_name", "model_names", "plain_names"]

K = TypeVar("K")
_LONGEST = 64
"""Characters: what the strictest provider takes."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")


def full_name(server: str, tool: str) -> str:
    """Return ``mcp.<server>.<tool>``, which agent files and rules name."""
    return f"mcp.{server}.{tool}"


def announced_as(server: str) -> str:
    """Return what stands for a server among the tools that workers have."""
    return f"mcp.{server}"


def model_names(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return what models call each (server, tool): letters, digits and underscores, each name once.

    The same tool has the same name whatever others there are, but where two would share one: then both carry a digest.
    """
    named = {pair: f"mcp_{pair[0]}_{pair[1]}" for pair in dict.fromkeys(pairs)}
    return _unique({pair: ("\0".join(pair), name) for pair, name in named.items()}, ())


def plain_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return for each name one of letters, digits and underscores that no other has, nor any of ``taken``."""
    return _unique({name: (name, name) for name in dict.fromkeys(names)}, taken)


def _unique(named: Mapping[K, tuple[str, str]], taken: Iterable[str]) -> dict[K, str]:
    """Make names plain; those that would be the same, or too long, carry a digest of what they stand for."""
    flat = {key: (what, _NOT_PLAIN.sub("_", name)) for key, (what, name) in named.items()}
    seen = Counter([*(name.casefold() for _, name in flat.values()), *taken])
    return {
        key: name if len(name) <= _LONGEST and seen[name.casefold()] == 1 else _with_digest(name, what)
        for key, (what, name) in flat.items()
    }


def _with_digest(name: str, what: str) -> str:
    return f"{name[: _LONGEST - 9]}_{hashlib.sha256(what.encode()).hexdigest()[:8]}"
