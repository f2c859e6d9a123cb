"""Which tools there are, and which of them an agent gets. A new built-in tool is named here."""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.llm.base import ToolSpec
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.searching import glob, grep
from ekiden.workers.tools.builtin.shell import bash
from ekiden.workers.tools.builtin.state import set_state

__all__ = ["BUILTIN", "Registry", "builtin_registry"]

BUILTIN: tuple[Tool, ...] = (bash, edit_file, glob, grep, ls, read_file, set_state)


class Registry:
    """Tools by name. Iterates in the order of names, which keeps a model's prompt the same from turn to turn."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Take in one more tool.

        Raises:
            ConfigurationError: its name is taken.
        """
        if tool.name in self._tools:
            raise ConfigurationError(f"two tools are named {tool.name!r}: rename one, or register it once")
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(sorted(self._tools.values(), key=lambda tool: tool.name))

    def __len__(self) -> int:
        return len(self._tools)

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(tool.name for tool in self)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return what a model is told of each tool, in the order of ``names``."""
        return tuple(tool.spec for tool in self)

    def offered_to(self, permits: Callable[[str], bool]) -> tuple[Tool, ...]:
        """Return the tools that an agent gets: those whose name its definition permits, in the order of ``names``."""
        return tuple(tool for tool in self if permits(tool.name))

    def missing(self, allow: Iterable[str]) -> tuple[str, ...]:
        """Return the entries of an agent's ``allow`` list that no tool here answers to; ``*`` is whatever is here."""
        patterns = [entry for entry in dict.fromkeys(allow) if entry not in self._tools and entry != "*"]
        return tuple(entry for entry in patterns if not any(fnmatchcase(name, entry) for name in self._tools))


def builtin_registry(workspace: bool) -> Registry:
    """Return the tools that Ekiden ships; those that act on files only for a worker with a ``workspace``."""
    return Registry(tool for tool in BUILTIN if workspace or not tool.needs_workspace)
