"""Which tools there are, and which of them an agent gets. A new built-in tool is named here."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.plugins import Plugin, clashes, load
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.stores.views import ToolView
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.asking import ask_user
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.git import git_commit
from ekiden.workers.tools.builtin.many_files import read_many_files
from ekiden.workers.tools.builtin.memory import forget_memory, recall_memory, save_memory
from ekiden.workers.tools.builtin.searching import glob, grep
from ekiden.workers.tools.builtin.shell import bash
from ekiden.workers.tools.builtin.state import set_state
from ekiden.workers.tools.builtin.todos import write_todos
from ekiden.workers.tools.builtin.web import web_fetch
from ekiden.workers.tools.builtin.writing import delete_file, write_file

__all__ = ["BUILTIN", "Registry", "builtin_registry", "plugin_tools"]

BUILTIN: tuple[Tool, ...] = (
    ask_user,
    bash,
    delete_file,
    edit_file,
    forget_memory,
    git_commit,
    glob,
    grep,
    ls,
    read_file,
    read_many_files,
    recall_memory,
    save_memory,
    set_state,
    web_fetch,
    write_file,
    write_todos,
)

_OURS = ("transfer_to_", "delegate_to_", "handoff_to_", "mcp_", "read_mcp_")
"""Beginnings of names that stand for other things than tools of a package."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


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

    def remove(self, name: str) -> None:
        """Go without the tool of this name."""
        del self._tools[name]

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

    def views(self) -> tuple[ToolView, ...]:
        """Return what a worker announces of each tool, in the order of ``names``."""
        return tuple(tool.view for tool in self)

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


def plugin_tools(
    allowed: Allowed, taken: Iterable[str], of_project: Iterable[Plugin[Tool]] = ()
) -> tuple[list[Tool], tuple[str, ...]]:
    """Return the tools of other packages that the settings allow, the project's, and what is wrong with the rest.

    ``taken``: names that are no plug-in's.
    """
    own = frozenset(taken)
    loaded = load("tools", allowed, Tool, own)
    plugins = (*loaded.plugins, *of_project)
    refused = clashes("tools", ((plugin.name, plugin.source) for plugin in plugins), own)
    free = [plugin for plugin in plugins if plugin.name not in refused]
    wrong = {plugin.name: problem for plugin in free if (problem := _problem_of(plugin))}
    tools = [
        replace(plugin.made, package=plugin.source.package, version=plugin.source.version)
        for plugin in free
        if plugin.name not in wrong
    ]
    return tools, (*loaded.problems, *refused.values(), *wrong.values())


def _problem_of(plugin: Plugin[Tool]) -> str:
    """Say why nobody could call the tool; empty: it can be called."""
    why = ""
    if not _NAME.fullmatch(plugin.name) or plugin.name.startswith(_OURS):
        why = f"is no name for a tool: use a-z, 0-9 and '_', and begin it with none of {', '.join(_OURS)}"
    try:
        inspect.signature(plugin.made.function).bind("args", "context")
    except (TypeError, ValueError):
        why = "does not take what a tool is called with: its arguments and a ToolContext"
    return why and f"tools: {plugin.name!r} of {plugin.source} {why}"
