"""Names of MCP tools: as agent files write them, and as models may call them. A flat name is never taken apart."""

import hashlib
import re
from collections.abc import Iterable

__all__ = ["full_name", "model_names"]

_LONGEST = 64
"""Characters: what the strictest provider takes."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")


def full_name(server: str, tool: str) -> str:
    """Return ``mcp.<server>.<tool>``, which agent files and rules name."""
    return f"mcp.{server}.{tool}"


def model_names(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return what models call each (server, tool): letters, digits and underscores, each name once.

    The same tool has the same name whatever others there are, but where two would share one: then both carry a digest.
    """
    flat = {pair: _flat(*pair) for pair in dict.fromkeys(pairs)}
    seen: dict[str, int] = {}
    for name in flat.values():
        seen[name.casefold()] = seen.get(name.casefold(), 0) + 1
    return {
        pair: name if len(name) <= _LONGEST and seen[name.casefold()] == 1 else _with_digest(name, pair)
        for pair, name in flat.items()
    }


def _flat(server: str, tool: str) -> str:
    return _NOT_PLAIN.sub("_", f"mcp_{server}_{tool}")


def _with_digest(name: str, pair: tuple[str, str]) -> str:
    digest = hashlib.sha256("\0".join(pair).encode()).hexdigest()[:8]
    return f"{name[: _LONGEST - 9]}_{digest}"
