"""Plug-ins: tools, models, routers, hooks and commands of other packages, named by entry points or by the settings.

Only what the settings allow is loaded (``settings.allowed``), by its name, once in a process. What a plug-in does wrong
is a problem to report, and stops nobody. Importing this loads nothing: not even the metadata of packages.
"""

import ast
import importlib
import logging
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ekiden.shared.foreign_code import is_interruption, said_by
from ekiden.shared.terminal_text import one_line, visible

if TYPE_CHECKING:
    from ekiden.shared.settings.plugins import Allowed, Group

__all__ = [
    "Loaded",
    "Plugin",
    "Source",
    "clashes",
    "entry_group",
    "fetch",
    "installed",
    "load",
    "named_if_slow",
    "offers",
    "sources",
    "why_no_name",
    "why_nowhere",
]

_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_MOST_SAID = 300
"""Characters of what went wrong in somebody else's code."""
SLOW_S = 5.0
"""After how long it is told which plug-in keeps the process waiting: one that hangs ends a pool's start, unnamed."""

log = logging.getLogger(__name__)  # not structlog's: where logs are not set up, as in commands, that prints to stdout

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Where a plug-in is: an entry point of an installed package, or an attribute of a module."""

    name: str
    """The entry point's, or the attribute's."""
    target: str
    """``module:attribute``."""
    package: str = ""
    """The distribution; empty: the settings name the attribute itself."""
    version: str = ""

    def __str__(self) -> str:
        return visible(f"{self.package} {self.version} ({self.target})" if self.package else self.target)


@dataclass(frozen=True)
class Plugin(Generic[T]):
    """One object that a plug-in brings."""

    name: str
    made: T
    source: Source


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """What was loaded of one group, in the order of the settings, and why the rest was not."""

    plugins: tuple[Plugin[T], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def made(self) -> dict[str, T]:
        """The objects by name."""
        return {plugin.name: plugin.made for plugin in self.plugins}


def entry_group(group: str) -> str:
    """Return what the group of entry points is called in a package's metadata."""
    return f"ekiden.{group}"


def sources(group: "Group", allowed: "Allowed") -> tuple[list[Source], list[str]]:
    """Return where the allowed plug-ins of a group are, and which of them are nowhere. Runs no code of theirs."""
    found: list[Source] = []
    problems: list[str] = []
    for package in allowed.packages:
        try:
            offered = offers(group, package)
        except Exception as error:  # metadata are a package's, too
            problems.append(f"{group}: the metadata of {package!r} cannot be read: {_said(error)}")
            continue
        found += offered or []
        if offered is None:
            problems.append(f"{group}: the package {package!r} is not installed here: install it, or leave it out")
        elif not offered:
            problems.append(f"{group}: the package {package!r} has no entry point in the group {entry_group(group)!r}")
    found += [Source(target.rpartition(":")[2].rpartition(".")[2], target) for target in allowed.modules]
    return list(dict.fromkeys(found)), list(dict.fromkeys(problems))


def installed(group: "Group") -> dict[str, list[str]]:
    """Return which names installed packages offer of a group, allowed or not, by package. Runs no code of theirs."""
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = defaultdict(list)
    for entry in entry_points(group=entry_group(group)):
        if entry.dist is not None:
            found[entry.dist.name].append(entry.name)
    return found


def offers(group: str, package: str) -> list[Source] | None:
    """Return what an installed package offers of a group, by name; None: there is no such package."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(package)
    except PackageNotFoundError:
        return None
    entries = found.entry_points.select(group=entry_group(group))
    return sorted(
        (Source(entry.name, f"{entry.module}:{entry.attr}", found.name, found.version) for entry in entries),
        key=lambda source: source.name,
    )


def why_nowhere(target: str) -> str:
    """Say why nothing can be behind ``module:attribute`` here; empty: something may be. Runs no code of it."""
    module, _, path = target.partition(":")
    parts, spec = module.split("."), None
    for depth in range(1, len(parts) + 1):
        name, within = ".".join(parts[:depth]), spec.submodule_search_locations if spec else None
        found = (finder.find_spec(name, within) for finder in sys.meta_path) if depth == 1 or within else ()
        if (spec := next(filter(None, found), None)) is None:
            return f"there is no module {name!r} here: install it, or put it on Python's path"
    attribute = path.partition(".")[0]
    if spec is None or not (spec.origin or "").endswith(".py") or _may_bind(Path(str(spec.origin)), attribute):
        return ""
    return f"the module {module!r} has no {attribute!r}"


def _may_bind(file: Path, name: str) -> bool:
    """Tell whether a module may have an attribute: only one that its text names nowhere is missing for certain."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True  # whoever loads it says what is wrong with it
    bound = {str(getattr(node, field)) for node in nodes for field in ("name", "id", "asname") if hasattr(node, field)}
    return bool(bound & {name, "*", "__getattr__", "globals", "setattr", "exec"})


@cache
def fetch(source: Source) -> tuple[Any, str]:
    """Return what the source names, or why it cannot be had: code of others may raise anything, ``SystemExit`` too."""
    module, _, path = source.target.partition(":")
    try:
        with named_if_slow(source):
            made: Any = importlib.import_module(module)
            for part in filter(None, path.split(".")):
                made = getattr(made, part)
            return (made() if isinstance(made, type) else made), ""
    except BaseException as error:
        return None, _fault("cannot be loaded", error)


@contextmanager
def named_if_slow(source: Source) -> Iterator[None]:
    """Log from a thread of its own which plug-in is being loaded, while it still is: it may never be."""
    text = "plugin_loads_slowly: %s is still being loaded after %g s, and all else waits for it"
    timer = threading.Timer(SLOW_S, log.warning, (text, source, SLOW_S))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def load(group: "Group", allowed: "Allowed", kind: type[T], own: Iterable[str] = ()) -> Loaded[T]:
    """Load what the settings allow of a group.

    An entry point, or an attribute, is an object of this ``kind``, a list of such objects, or a class of them, which is
    made without arguments. The object's own ``name`` counts, else the entry point's. A name that two sources bring
    counts for neither of them.

    Args:
        group: The group's name.
        allowed: What of it may be loaded.
        kind: The class, or the protocol that can be checked while running, of its objects.
        own: Names of Ekiden's own, which nobody takes.
    """
    found, problems = sources(group, allowed)
    plugins: list[Plugin[T]] = []
    for source in found:
        made, problem = fetch(source)
        if not problem:
            one, problem = _objects_or_why_not(made, source, kind)
            plugins += one
        if problem:
            problems.append(f"{group}: {source} {problem}")
    refused = clashes(group, ((plugin.name, plugin.source) for plugin in plugins), own)
    kept = tuple(plugin for plugin in plugins if plugin.name not in refused)
    return Loaded(kept, (*problems, *refused.values()))


def clashes(group: "Group", named: Iterable[tuple[str, Source]], own: Iterable[str] = ()) -> dict[str, str]:
    """Return the names that no plug-in gets, each with why: it is one of ours, or several sources bring it."""
    ours = frozenset(own)
    by_name: dict[str, list[Source]] = defaultdict(list)
    for name, source in named:
        by_name[name].append(source)
    refused = {}
    for name, found in by_name.items():
        places = " and ".join(map(str, found))
        if name in ours:
            refused[name] = f"{group}: {name!r} of {places} is a name of Ekiden's own, which stays: rename it"
        elif len(found) > 1:
            refused[name] = f"{group}: {name!r} is brought by {places}: none of them counts, allow one or rename it"
    return refused


def _objects_or_why_not(made: Any, source: Source, kind: type[T]) -> tuple[list[Plugin[T]], str]:
    try:
        return _objects_in(made, source, kind)
    except BaseException as error:  # a property or an iterator of the plug-in's, as one called ``name``
        return [], _fault("cannot be looked at", error)


def _objects_in(made: Any, source: Source, kind: type[T]) -> tuple[list[Plugin[T]], str]:
    """Return the objects of a source, or none and why not."""
    several = isinstance(made, list | tuple)
    plugins = []
    for one in made if several else (made,):
        if not isinstance(one, kind):
            return [], visible(f"is of the type {type(one).__name__}, where a {kind.__name__} is expected")
        name = getattr(one, "name", None if several else source.name)
        if (why := why_no_name(name)) or not isinstance(name, str):
            return [], why
        plugins.append(Plugin(name, one, source))
    return plugins, ""


def why_no_name(name: object) -> str:
    """Say why nothing can have this name, and what makes one; empty: it can."""
    if type(name) is str and _NAME.fullmatch(name):  # a class of strings may have a __hash__ of its own
        return ""
    said = visible(one_line(repr(name)))
    return (
        f"has no usable name ({said}): a plain str makes one that begins with one of a to z, A to Z and '_', "
        "and goes on with letters, digits, '_', '.' and '-', 64 characters at most"
    )


def _fault(what: str, error: BaseException) -> str:
    """Return what a plug-in did wrong, whatever it raised: ``SystemExit``, too. A Ctrl-C is none of its faults."""
    if is_interruption(error):
        raise error
    return f"{what}: {_said(error)}"


def _said(error: BaseException) -> str:
    from ekiden.shared.redaction import redact  # here, for the command line's sake

    return visible(one_line(f"{type(error).__name__}: {redact(said_by(error))}", _MOST_SAID))
