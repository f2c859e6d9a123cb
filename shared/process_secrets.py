"""Keeps what a process of ours knows, and commands must not, out of where commands can read it.

Every process of a user may read the first environment and the arguments of the others, as long as these live
(``/proc/PID/environ``, ps(1)), whatever they do to their variables later; and, through ``/proc/PID/fd``, the files and
pipes that they hold open. Nobody opens a socket that way. So our processes hand secrets on through one, never through
an environment, and not before the child has closed its memory (``PR_SET_DUMPABLE``, prctl(2)): from exec until then all
of it is open.

Whoever was started by hand takes its secrets out of its first environment and blackens the passwords in its arguments.
From then on they are in memory alone, which other processes of the user cannot read. Root can; so can a debugger that
got hold of a child before it closed its memory, where the system lets users debug what is no child of theirs
(``kernel.yama.ptrace_scope`` 0); and what stands in a file, whoever reads that. Elsewhere than on Linux, what was
started by hand keeps its first environment.
"""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ekiden.shared.environments import is_open, open_part
from ekiden.shared.errors import ConfigurationError

if TYPE_CHECKING:
    import socket

__all__ = ["SECRETS_FD", "close_memory", "handed_on", "withdraw", "withheld"]

SECRETS_FD = "EKIDEN_SECRETS_FD"
"""The environment variable that names the socket from which the rest of the environment comes."""
READY_S = 60.0
"""A child that has not asked for its secrets within this time gets none, and says so in its log."""

_PR_SET_DUMPABLE = 4
_READY = b"."
_SAID_OPENLY = (
    "ekiden: a password stands in the command line, where every user of this machine could read it, and your shell "
    "remembers it: give an address as EKIDEN_REDIS_URL, and a setting with `ekiden config set --global KEY -`, which "
    "reads it from standard input"
)
_PASSWORD = re.compile(
    rb"://[^\s\0:/@]*:([^\s\0/]+)@|[?&](?:ssl_)?password=([^\s\0&]+)|\0[\w.]*signing_key\0(?![@-])([^\0]+)"
)
"""In arguments that end with a null each."""
_ENTRY = re.compile(rb"[^\0]+")
"""Of an environment whose entries end with a null each; more nulls follow what has been wiped or made shorter."""


def withdraw() -> None:
    """Take over what our starter has handed us, and take out of sight how we were started; the first thing to do.

    Raises:
        ConfigurationError: ``EKIDEN_SECRETS_FD`` does not name an open socket, or nothing comes from it.
    """
    close_memory()
    os.environ.update(_handed())
    if _PASSWORD.search(b"\0".join(map(os.fsencode, sys.argv))):
        print(_SAID_OPENLY, file=sys.stderr, flush=True)  # noqa: T201 - whichever program this is, its user must know
    if sys.platform == "linux":
        _blacken()


def close_memory() -> None:
    """Let no other process of our user look at our memory. There will be no core dump of it, either."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def withheld(env: Mapping[str, str]) -> dict[str, str]:
    """Return what of ``env`` may not stand in a process's first environment."""
    return {name: value for name, value in env.items() if not is_open(name, value)}


@contextlib.contextmanager
def handed_on(env: Mapping[str, str]) -> Iterator[tuple[dict[str, str], list[int]]]:
    """Yield the first environment of a child that is to be started in this block, and the descriptors to pass to it.

    Afterwards it is sent the rest as soon as it asks (``withdraw``); nobody waits for that. One that asks for nothing
    within ``READY_S``, or ends before, is sent nothing.
    """
    rest = withheld(env)
    if not rest:
        yield dict(env), []
        return
    import socket  # here, for all that hand nothing on

    ours, theirs = socket.socketpair()
    try:
        with theirs:
            yield open_part(env) | {SECRETS_FD: str(theirs.fileno())}, [theirs.fileno()]
    except BaseException:
        ours.close()
        raise
    threading.Thread(target=_send, args=(ours, rest), name="hand-on", daemon=True).start()


def _send(ours: "socket.socket", secrets: Mapping[str, str]) -> None:
    data = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in secrets.items())
    ours.settimeout(READY_S)
    with ours, contextlib.suppress(OSError):  # it has ended, or hangs: whoever started it will see
        if ours.recv(len(_READY)):
            ours.sendall(data + b"\0")


def _handed() -> dict[str, str]:
    """Ask for what our starter hands us, once; our memory must be closed."""
    name = os.environ.pop(SECRETS_FD, None)
    if name is None:
        return {}
    try:
        data = _asked_for(int(name))
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"{SECRETS_FD} is {name!r}, expected an open socket: Ekiden sets it for its own children, unset it"
        ) from error
    if not data.endswith(b"\0\0"):
        raise ConfigurationError(
            f"whoever started this process has not sent it the rest of its environment ({SECRETS_FD}): it has ended, "
            f"or waited for more than {READY_S:g} s; start it again"
        )
    pairs = [os.fsdecode(pair).partition("=") for pair in data[:-2].split(b"\0")]
    return {variable: value for variable, _, value in pairs}


def _asked_for(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        try:
            os.write(descriptor, _READY)
            return file.read()
        except ConnectionError:  # nobody is at the other end any more
            return b""


def _blacken() -> None:
    """Wipe what is not open of our first environment, and passwords in our arguments, where the kernel shows them."""
    arguments, environment = _shown_by_the_kernel()
    secrets = dict(_secrets_in(environment))
    if not secrets and not _PASSWORD.search(arguments.data):
        return
    for found in _PASSWORD.finditer(arguments.data):
        arguments.wipe(*found.span(found.lastindex or 0), b"*")
    os.environ.update({name: os.environ[name] for name in secrets if name in os.environ})  # the C library copies them
    for start, end in secrets.values():
        environment.wipe(start, end, b"\0")


class _Memory:
    """A stretch of our own memory."""

    def __init__(self, start: int, end: int) -> None:
        import ctypes

        self.data = ctypes.string_at(start, end - start)
        self._start = start
        self._set = ctypes.memset

    def wipe(self, start: int, end: int, byte: bytes) -> None:
        self._set(self._start + start, ord(byte), end - start)


def _shown_by_the_kernel() -> tuple[_Memory, _Memory]:
    """Return where our arguments and our first environment are; empty where the kernel does not tell."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib would cost more than all of this
        fields = file.read().rpartition(b")")[2].split()  # the third of proc_pid_stat(5) comes first
    arg_start, arg_end, env_start, env_end = map(int, fields[45:49])
    return _Memory(arg_start, arg_end), _Memory(env_start, env_end)


def _secrets_in(environment: _Memory) -> "list[tuple[str, tuple[int, int]]]":
    """Return the variables that are not open, each with its place."""
    found = []
    for entry in _ENTRY.finditer(environment.data):
        name, mark, value = os.fsdecode(entry[0]).partition("=")
        if mark and not is_open(name, value):
            found.append((name, entry.span()))
    return found
