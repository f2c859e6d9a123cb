"""What a confined command sees of this machine: programs and their data to read, its workspace to write."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["DEVICES", "Place", "Readable", "interpreter_of", "programs", "without_parts"]

DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_ETC = (
    "alternatives fonts gitconfig group host.conf hosts ld.so.cache localtime mime.types nsswitch.conf os-release "
    "passwd pki/ca-trust pki/tls/certs protocols resolv.conf services ssl/certs ssl/openssl.cnf timezone"
)
"""Of ``/etc`` what programs need to start. Not what administrators put there: keys, passwords, settings of services."""
_TREES = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "NVM_DIR", "PYENV_ROOT", "RUSTUP_HOME", "NODE_PATH")
"""Variables of the worker's environment that name where programs lie."""
_PARTS = ("bin", "lib", "lib64", "include")


class Readable(NamedTuple):
    """What commands may read and execute: a path, and what it led to before any command could change that."""

    path: Path
    real: Path

    def lies_below(self, root: Path) -> bool:
        """Tell whether either of the two is ``root`` or below it."""
        return self.path.is_relative_to(root) or self.real.is_relative_to(root)


@dataclass(frozen=True)
class Place:
    """Where a command works.

    Attributes:
        root: The workspace root, a real path: the command may write there.
        cwd: The folder that it starts in, a real path below ``root``.
        read_only: What lies below ``root`` and is only read there: what programs take commands from.
        pinned: Folders below ``root`` that keep their place, for what lies in them is ``read_only``.
        empty: Folders below ``root`` that look empty, and are read-only, whether there is one or not.
        closed: What lies below ``root`` and is not seen.
    """

    root: Path
    cwd: Path
    read_only: Sequence[Path] = ()
    pinned: Sequence[Path] = ()
    empty: Sequence[Path] = ()
    closed: Sequence[Path] = ()


def programs(env: Mapping[str, str], further: Sequence[Path] = ()) -> list[Readable]:
    """Return what every command may read and execute, as far as it exists.

    Args:
        env: What commands get of the worker's environment.
        further: What the settings add (``tools.readable``).
    """
    named = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    named += [Path(env[name]) for name in _TREES if name in env]
    named += [Path(entry) for entry in env.get("PATH", "").split(os.pathsep)]
    etc = [Path("/etc", name) for name in _ETC.split()]
    ours = [*map(Path, _SYSTEM), *etc, *filter(_is_narrow, named), *further]
    found = [path for path in dict.fromkeys(ours) if os.path.exists(path)]  # noqa: PTH110 - which never raises
    return without_parts([Readable(path, Path(os.path.realpath(path))) for path in found])


def interpreter_of(environment: Path, root: Path) -> list[Readable]:
    """Return what a virtual environment in a workspace needs of the Python installation that it was made from.

    There, anybody makes it lead anywhere: an installation lies elsewhere and has Python's own library, and only its
    programs and libraries are returned, no links.
    """
    base = Path(os.path.realpath(environment / "bin" / "python")).parent.parent
    if base.is_relative_to(root) or not any(base.glob("lib/python3*/os.py")):
        return []
    parts = [base / part for part in _PARTS]
    return [Readable(part, part) for part in parts if os.path.isdir(part) and not os.path.islink(part)]  # noqa: PTH112, PTH114 - likewise


def without_parts(found: Sequence[Readable]) -> list[Readable]:
    """Leave out what lies in another one that is shown: each costs a command a mount.

    A link in one of them is there already, and nothing can be mounted over it: what it leads to is shown.
    """
    whole = {one.path for one in found if one.path == one.real}
    named = [Readable(one.real, one.real) if _lies_in(one.path, whole) else one for one in found]
    return [one for one in dict.fromkeys(named) if not _lies_in(one.path, whole)]


def _lies_in(path: Path, whole: Collection[Path]) -> bool:
    return any(top in whole for top in path.parents)


def _is_narrow(path: Path) -> bool:
    """Tell a folder of programs from one that holds a home, or everything."""
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(Path.home()))
    return path.is_absolute() and not home.is_relative_to(real) and len(real.parts) > 2
