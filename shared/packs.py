"""The packs: the agent files that come with Ekiden, a folder for each team."""

from functools import cache
from pathlib import Path

from ekiden.shared.errors import ConfigurationError

__all__ = ["SYSTEM_PACK", "pack_names", "shipped_agent_names", "shipped_agents_dir"]

SYSTEM_PACK = "system"
"""Agents that serve Ekiden itself: they are always there."""


def shipped_agents_dir() -> Path:
    """Find the packs: inside the installed package, or beside the checkout.

    Raises:
        ConfigurationError: the installation lacks them.
    """
    package = Path(__file__).resolve().parent
    checkout = package.parent
    if (package / "_agents").is_dir():
        return package / "_agents"
    # In site-packages, a folder "agents" would belong to another distribution.
    if (checkout / "pyproject.toml").is_file() and (checkout / "agents").is_dir():
        return checkout / "agents"
    raise ConfigurationError(f"The shipped agent files are missing from {str(package)!r}: install Ekiden again")


def pack_names() -> list[str]:
    """Return the names of the packs that may be had or not."""
    folders = (path.name for path in shipped_agents_dir().iterdir() if path.is_dir())
    return sorted(name for name in folders if not name.startswith(("_", ".")) and name != SYSTEM_PACK)


@cache
def shipped_agent_names() -> tuple[str, ...]:
    """Return the names of all agents of all packs, whichever are there."""
    return tuple(path.stem for path in shipped_agents_dir().glob("[!_.]*/*.md"))
