"""What each Lua script takes, by name: declared once, in its head, and the same on both sides.

``-- KEYS job, journal`` and ``-- ARGV fence, leg, records...`` make the script's locals of these names, and the
keywords of ``Scripts.run``. A name with dots is a list, in Lua ``{from = ..., to = ...}``: where its items are in KEYS
or ARGV.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Arg", "Signature", "signature_of"]

Arg = str | int | float

_DECLARED = re.compile(r"^-- (KEYS|ARGV) (.+(?:\n--  +\S.*)*)", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z_]*(\.\.\.)?")
_LOCAL = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)


@dataclass(frozen=True)
class Signature:
    """The keys and arguments of a script, in the order in which they are sent."""

    script: str
    keys: tuple[str, ...]
    key_list: str | None
    """The name of the keys behind those; None: there are none."""
    args: tuple[str, ...]
    arg_lists: tuple[str, ...]
    names: frozenset[str]

    def lay_out(self, given: Mapping[str, Any]) -> tuple[list[str], list[Arg]]:
        """Return KEYS and ARGV. Raises ``TypeError`` for a name that is missing, or that the script does not know."""
        if given.keys() != self.names:
            missing, unknown = sorted(self.names - given.keys()), sorted(given.keys() - self.names)
            raise TypeError(f"script {self.script!r}: missing {missing}, unknown {unknown}")
        sent_keys = [given[name] for name in self.keys]
        if self.key_list is not None:
            sent_keys += given[self.key_list]
        args = [given[name] for name in self.args]
        for name in self.arg_lists:
            args += (len(given[name]), *given[name])
        return sent_keys, args

    @property
    def locals(self) -> str:
        """The Lua text that gives what was sent its names."""
        lines = [_unpacked("KEYS", self.keys), _unpacked("ARGV", self.args)]
        if self.key_list is not None:
            lines.append(f"local {self.key_list} = {{from = {len(self.keys) + 1}, to = #KEYS}}")
        count = str(len(self.args) + 1)
        for name in self.arg_lists:  # in front of each list stands how many there are
            lines.append(f"local {name} = {{from = {count} + 1, to = {count} + ARGV[{count}]}}")
            count = f"({name}.to + 1)"
        return "\n".join(filter(None, lines)) + "\n"


def signature_of(script: str, text: str, prelude: str) -> Signature:
    """Read the head of a script. Raises ``ValueError`` for one that declares what is no name, or is taken."""
    declared = {kind: _names(script, names) for kind, names in _DECLARED.findall(text)}
    keys, key_lists = _split(declared.get("KEYS", []))
    args, arg_lists = _split(declared.get("ARGV", []))
    names = [*keys, *key_lists, *args, *arg_lists]
    taken = {name for names in _LOCAL.findall(prelude) for name in names.split(", ")}
    wrong = sorted({name for name in names if names.count(name) > 1 or name in taken})
    if wrong or len(key_lists) > 1:
        raise ValueError(f"script {script!r}: declares what is declared already, or a second list of keys: {wrong}")
    return Signature(script, keys, next(iter(key_lists), None), args, arg_lists, frozenset(names))


def _names(script: str, text: str) -> list[str]:
    names = [name.strip() for name in text.replace("\n--", " ").split(",")]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"script {script!r}: {name!r} is no name of an argument")
    return names


def _split(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the single values, and the lists."""
    single = tuple(name for name in names if not name.endswith("..."))
    return single, tuple(name.removesuffix("...") for name in names if name.endswith("..."))


def _unpacked(source: str, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    return f"local {', '.join(names)} = {', '.join(f'{source}[{at}]' for at in range(1, len(names) + 1))}"
