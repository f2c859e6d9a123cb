"""Applies a confinement in the process that starts a command: limits, Landlock, seccomp, capabilities.

Nothing here widens: what cannot be applied raises ``OSError``, and the command is not started.
"""

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Callable

from ekiden.shared.processes.confinement import Confinement, Limits, Ruleset

__all__ = ["KEPT_CAPABILITIES", "Confined", "landlock_abi"]

KEPT_CAPABILITIES = {0: "CAP_CHOWN", 1: "CAP_DAC_OVERRIDE", 3: "CAP_FOWNER", 4: "CAP_FSETID"}
"""What root keeps in a sandbox, by number: the files of others in its workspace, and nothing of the machine."""
_MOST_CAPABILITIES = 64

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_FILE_ACCESS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""What a rule of a file that is no folder may allow: execute, write, read, truncate, ioctl."""
_CAPBSET_READ, _CAPBSET_DROP, _SET_SECCOMP, _NO_NEW_PRIVILEGES, _AMBIENT = 23, 24, 22, 38, 47
_FILTER, _CLEAR_ALL = 2, 4
_OOM_SCORE = b"800"
"""When memory is short, the kernel is to end commands before it ends us."""

_libc = ctypes.CDLL(None, use_errno=True)


class Confined:
    """A command's confinement while it is started and runs; ``close`` removes its private folder."""

    def __init__(self, confinement: Confinement) -> None:
        """Prepare it. Raises ``OSError`` where this system cannot."""
        self.launcher: list[bytes] = []
        self.env: dict[bytes, bytes] = {}
        self.descriptors: list[int] = []
        self.enter: Callable[[], None] | None = None
        """Runs in the child, right before the command; without a need for it, a child is started in a third the time.
        """
        self._folder = ""
        self._seccomp = confinement.seccomp
        try:
            self._prepare(confinement)
        except BaseException:
            self.close()
            raise

    def begun(self) -> None:
        """Let go of what only the start needed."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def close(self) -> None:
        """Remove what belongs to the command alone."""
        self.begun()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self, confinement: Confinement) -> None:
        limit(confinement.limits)
        if confinement.launcher:
            self.launcher = [*map(self._argument, confinement.launcher), *self._filter_for_launcher(), b"--"]
            return
        if confinement.ruleset is not None:
            self._folder = tempfile.mkdtemp(prefix="ekiden-command-")
            self.env = {b"HOME": os.fsencode(self._folder), b"TMPDIR": os.fsencode(self._folder)}
            self.descriptors.append(_made(confinement.ruleset, self._folder))
        if confinement.ruleset is not None or confinement.seccomp:
            self.enter = self._enter

    def _argument(self, word: str) -> bytes:
        if not word.startswith("\0"):
            return os.fsencode(word)
        self.descriptors.append(_opened(word[1:]))
        return str(self.descriptors[-1]).encode()

    def _filter_for_launcher(self) -> list[bytes]:
        if not self._seccomp:
            return []
        reading, writing = os.pipe()
        self.descriptors.append(reading)
        with os.fdopen(writing, "wb") as file:
            file.write(self._seccomp)  # far less than a pipe holds
        return [b"--seccomp", str(reading).encode()]

    def _enter(self) -> None:
        _drop_capabilities()
        _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
        for ruleset in self.descriptors:
            _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
        if self._seccomp:
            _install(self._seccomp)


def limit(limits: Limits) -> None:
    """Hold this process, and what it starts, to what the kernel counts for each process."""
    with contextlib.suppress(OSError):  # no Linux
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(descriptor, _OOM_SCORE)
        finally:
            os.close(descriptor)
    _lower(resource.RLIMIT_CORE, 0)
    if limits.file_bytes:
        _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    if limits.memory_bytes:
        _lower(resource.RLIMIT_DATA, limits.memory_bytes)


def landlock_abi() -> int:
    """Return the version of Landlock that this kernel has; 0: none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, _VERSION)))


def _opened(path: str) -> int:
    """Return a descriptor of a real path: a link that somebody has put there meanwhile is an error."""
    opened = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for name in path.strip("/").split("/"):
        above = opened
        try:
            opened = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    if stat.S_ISLNK(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return opened


def _lower(which: int, value: int) -> None:
    most = resource.getrlimit(which)[1]
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(which, (value, value))


def _made(ruleset: Ruleset, private: str) -> int:
    """Return the descriptor of a Landlock ruleset."""
    attributes = struct.pack("=QQQ", ruleset.handled_files, ruleset.handled_ports, ruleset.scoped)
    size = 24 if ruleset.scoped else 16 if ruleset.handled_ports else 8  # older kernels take no longer ones
    made = _checked(_libc.syscall(_CREATE_RULESET, attributes[:size], size, 0), "Landlock")
    try:
        for path, access in (*ruleset.rules, (private, ruleset.private)):
            _allow(made, path, access)
    except BaseException:
        os.close(made)
        raise
    return made


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what cannot be opened is not allowed
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= _FILE_ACCESS
        rule = struct.pack("=QI", access, opened)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), path)
    finally:
        os.close(opened)


def _drop_capabilities() -> None:
    """Let what is executed from here on have no rights of root's but those over files."""
    _libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    if os.geteuid():
        return
    for capability in range(_MOST_CAPABILITIES):
        if capability not in KEPT_CAPABILITIES and _libc.prctl(_CAPBSET_READ, capability, 0, 0, 0) == 1:
            _checked(_libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0), "capabilities")


def _install(program: bytes) -> None:
    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    described = Filter(len(program) // 8, program)
    _checked(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(described), 0, 0), "seccomp")


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)
    return result
