"""Opens what lies below a folder, whatever becomes of the way there meanwhile.

The upper folder is held open, and no link is followed on the way down: whoever puts one there between a look and an
opening gets an error, never what the link leads to. Where links lead is found out before, by ``paths``; should that be
wrong by now, nothing is opened. Linux goes the whole way in one call, ``openat2`` (5.6 and later); elsewhere, and where
a sandbox forbids that call, each folder is opened in the one before.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

__all__ = ["folder_below", "folder_held", "made_folder", "open_regular", "put", "read_all", "status_in"]

_OPENAT2 = 437
"""The call's number on Linux, on every architecture but Alpha."""
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HELD = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
"""A folder that is only passed through need not be readable."""
_LISTED = _FOLDER | os.O_RDONLY
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""No link, no terminal of ours, no waiting for who is at the other end of a pipe."""


_PIECE = 1 << 20


class _How(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def folder_held(path: Path) -> Iterator[int]:
    """Hold the folder at ``path`` open; that this path leads where it should is the caller's word."""
    with _closing(os.open(path, _HELD)) as folder:
        yield folder


@contextmanager
def folder_below(upper: int, names: Sequence[str], *, listed: bool = False) -> Iterator[int]:
    """Open the folder that ``names`` lead to below the open folder ``upper``; no names: that one itself.

    Args:
        upper: Its descriptor.
        names: Of folders, from above.
        listed: Whether it is to be listed, too.

    Raises:
        OSError: there is none, one of the names is a link or ``..``, or the system refuses.
    """
    with _closing(_opened(upper, names, _LISTED if listed else _HELD)) as folder:
        yield folder


@contextmanager
def made_folder(upper: int, names: Sequence[str]) -> Iterator[int]:
    """Open a folder as ``folder_below`` does; what is missing on the way is made. Raises ``OSError``."""
    _require_names(names)
    folder = _opened(upper, (), _HELD)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            below = _opened(folder, (name,), _HELD)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def status_in(folder: int, name: str) -> os.stat_result:
    """Return what there is under ``name`` in an open folder: of a link itself, and without opening it."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def open_regular(folder: int, name: str) -> int:
    """Open the regular file ``name`` of an open folder for reading; the caller closes it.

    Raises:
        OSError: it is none (``EINVAL``), not there, or the system refuses. To open a device may do something by
            itself, so what is no regular file is not even opened.
    """
    if stat.S_ISREG(status_in(folder, name).st_mode):
        file = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
    raise OSError(errno.EINVAL, "it is no regular file")


def read_all(file: int, most: int) -> bytes:
    """Read an open file to its end, or up to ``most`` bytes."""
    pieces: list[bytes] = []
    while most > 0 and (piece := os.read(file, min(most, _PIECE))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def put(folder: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Store ``data`` as the file ``name`` of an open folder in one step.

    A reader sees the old file or the new one, a crash leaves one of them. What stood there is replaced, not written to,
    so that another name of it, wherever that is, keeps the old content. The new file has mode and, where permitted,
    owner of the one ``before``.

    Raises:
        OSError: the system refuses.
    """
    temporary = f".{secrets.token_hex(8)}.tmp"
    # Not tempfile: it makes files of mode 0600, and the umask cannot be read without changing it for every thread.
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as written:
            if before is not None:
                with suppress(PermissionError):
                    os.fchown(file, before.st_uid, before.st_gid)
                os.fchmod(file, stat.S_IMODE(before.st_mode))
            written.write(data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _require_names(names: Sequence[str]) -> None:
    if any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _opened(upper: int, names: Sequence[str], flags: int) -> int:
    _require_names(names)
    if _has_openat2() and names:
        return _openat2(upper, "/".join(names), flags)
    return _step_by_step(upper, names, flags)


@cache
def _has_openat2() -> bool:
    """Whether the system has the call, and no sandbox forbids it."""
    if os.uname().sysname != "Linux" or os.uname().machine == "alpha":
        return False
    try:
        with folder_held(Path("/")) as root:
            os.close(_openat2(root, ".", _HELD))
    except OSError:
        return False
    return True


def _openat2(upper: int, path: str, flags: int) -> int:
    how = _How(flags, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    name = os.fsencode(path)
    while True:
        descriptor: int = _c_library().syscall(
            ctypes.c_long(_OPENAT2), upper, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        if (code := ctypes.get_errno()) != errno.EINTR:
            raise OSError(code, os.strerror(code))


@cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _step_by_step(upper: int, names: Sequence[str], flags: int) -> int:
    folder = os.open(".", flags if not names else _HELD, dir_fd=upper)
    for depth, name in enumerate(names, 1):
        try:
            below = os.open(name, flags if depth == len(names) else _HELD, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder
