"""Commands of other packages: those of the worker side, and what the settings allow."""

import os
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, Final

import typer
from typer.core import TyperCommand

from ekiden.dispatcher.cli.lazy import command_of
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.plugins import Source, clashes, fetch, installed, offers, sources
from ekiden.shared.terminal_text import note

__all__ = ["Plugged"]

_GROUP: Final = "commands"
_SETTINGS = Path(".gemini", "settings.json")
_OWN = "ekiden"
"""Our own distribution: its entry points are the worker's commands, so that dispatcher never imports workers."""


class Plugged:
    """The commands that are none of this package; ``taken`` are its own names."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken

    def names(self) -> list[str]:
        """Return the names of all that may be called; where the settings cannot be read, of our own."""
        own, others = _own(), dict[str, Source]()
        try:
            others, _ = self._others(own)
        except ConfigurationError as error:
            note(f"ekiden: {error}")
        return sorted([*own, *others])

    def command(self, name: str) -> Any:
        """Return the command of this name; None: nobody offers it. Raises ``ConfigurationError``: it is not allowed."""
        own = _own()
        if name in own:
            return _loaded(name, own[name])
        others, problems = self._others(own)
        if name in others:
            return _loaded(name, others[name])
        for problem in problems:
            note(f"ekiden: {problem}")
        for package in (package for package, names in installed(_GROUP).items() if name in names):
            if not any(repr(name) in problem for problem in problems):
                raise ConfigurationError(
                    f"the command {name!r} of the package {package!r} is not allowed: "
                    f"`ekiden config set --global commands.packages {quote(package)}` allows it, beside what is "
                    "allowed now"
                )
        return None

    def _others(self, own: dict[str, Source]) -> tuple[dict[str, Source], list[str]]:
        """Return what the settings allow, by name. They are read only where they say anything: that is slow."""
        if not _is_spoken_of():
            return {}, []
        from ekiden.shared.settings.model import load_settings

        found, problems = sources(_GROUP, load_settings().allowed(_GROUP))
        named = [(source.name.replace("_", "-"), source) for source in found]
        refused = clashes(_GROUP, named, (*self._taken, *own))
        return {name: source for name, source in named if name not in refused}, [*problems, *refused.values()]


@cache
def _own() -> dict[str, Source]:
    return {source.name: source for source in offers(_GROUP, _OWN) or ()}


def _is_spoken_of() -> bool:
    """Tell whether the environment or a settings file says anything of commands."""
    if any(name.startswith("EKIDEN_COMMANDS_") for name in os.environ):
        return True
    here = Path.cwd()
    if not any((folder / _SETTINGS).exists() for folder in (here, *here.parents, Path.home())):
        return False
    from ekiden.shared.settings.files import global_file, project_file, read_settings  # a tenth of what --help takes

    return any(_GROUP in read_settings(path) for path in (project_file(), global_file()))


class _Broken(TyperCommand):
    """Stands for a command that cannot be loaded: `--help` lists it with why, and whoever calls it is told."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, help=f"Cannot be used: {problem}")
        self._problem = problem

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """See click."""
        raise ConfigurationError(f"the command {self.name!r}: {self._problem}")


def _loaded(name: str, source: Source) -> Any:
    """Return the command that the source names: a function, or an app, that typer understands."""
    made, problem = fetch(source)
    if not problem and not (callable(made) or isinstance(made, typer.Typer)):
        problem = f"is of the type {type(made).__name__}, where a function or a Typer is expected"
    return _Broken(name, f"{source} {problem}") if problem else command_of(name, made)
