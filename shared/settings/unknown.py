"""Keys of settings files that mean nothing to Ekiden: misspelt ones, mostly."""

import time
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from ekiden.shared.settings.files import global_file, place_in, project_file, read_settings
from ekiden.shared.settings.model import Settings, key_of
from ekiden.shared.settings.names import OTHER_KEYS
from ekiden.shared.suggestions import nearest
from ekiden.shared.terminal_text import note, one_line

__all__ = ["tell_of_unknown_settings", "unknown_settings"]

_OURS = ("ekiden.", "agents.routing.", "agents.tracing.", "compression.", "limits.", "loops.", "notify.")
_NEAR = 0.8
"""How near a key must be to one of ours to be a misspelt one, where other programs have keys of theirs, too."""
_MOST = 20
_SHOWN = 3
_CPU_S = 0.1
"""For the comparing in one file: a project's file may have any number of keys."""


def unknown_settings() -> list[str]:
    """Return the keys of ours in the settings files that are no settings: each with its place, and what may be meant.

    Raises ``ConfigurationError`` for a file that cannot be read.
    """
    known = frozenset([*(key_of(name) for name in Settings.model_fields), *OTHER_KEYS.values()])
    return [
        f"{one_line(key)} in {place_in(path, key.split('.'))}"
        + "".join(f" (for {near!r}?)" for near in _near(key, known))
        for path in (project_file(), global_file())
        for key in islice(_unknown(read_settings(path), known, time.thread_time() + _CPU_S), _MOST)
    ]


def tell_of_unknown_settings() -> None:
    """Say them, as far as a line holds, to whoever starts jobs: what they were meant for does not hold."""
    if found := unknown_settings():
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        note(f"ekiden: no setting is called {', '.join(found[:_SHOWN])}{more}: `ekiden config list` names them all")


def _near(key: str, known: Collection[str], cpu_s: float = 0.05) -> list[str]:
    return nearest(key, known, 1, _NEAR, cpu_s=cpu_s)


def _unknown(values: Mapping[str, Any], known: Collection[str], until: float, above: str = "") -> Iterator[str]:
    """Yield the keys below our own sections that are no settings, nor hold any."""
    sections = _sections(known)
    for name, value in values.items():
        key = f"{above}{name}"
        if key in known:
            continue
        if isinstance(value, Mapping) and (key in sections or not above):
            yield from _unknown(value, known, until, f"{key}.")
        elif key.startswith(_OURS) or (
            above and (left := until - time.thread_time()) > 0 and _near(key, [*known, *sections], left)
        ):
            yield key


def _sections(known: Collection[str]) -> set[str]:
    """Return what the keys of settings stand below: ``agents`` and ``agents.routing``."""
    return {".".join(parts[:depth]) for key in known for parts in [key.split(".")] for depth in range(1, len(parts))}
