"""Keeps what a process of ours knows, and commands must not, out of where commands can read it.

Every process of a user may read the first environment and the arguments of the others, as long as these live
(``/proc/PID/environ``, ps(1)), whatever they do to their variables later. So our processes hand secrets on through a
descriptor, never through an environment, and whoever was started by hand takes its secrets out of its first environment
and blackens the passwords in its arguments. From then on they are in ``os.environ`` alone: in memory, which other
processes of the user cannot read, since a process that holds keys is not *dumpable* (prctl(2)). Root can; so can
whoever reads a file that they stand in. Elsewhere than on Linux, what was started by hand keeps its first environment.
"""

import contextlib
import os
import re
import sys
from collections.abc import Mapping

from ekiden.shared.environments import is_open, looks_secret, open_part
from ekiden.shared.errors import ConfigurationError

__all__ = ["SECRETS_FD", "handed_on", "take", "withdraw", "withheld"]

SECRETS_FD = "EKIDEN_SECRETS_FD"
"""The environment variable that names the descriptor with the rest of the environment."""

_PR_SET_DUMPABLE = 4
_SAID_OPENLY = (
    "ekiden: a password stands in the command line, where every user of this machine could read it, and your shell "
    "remembers it: give the address as EKIDEN_REDIS_URL, or as ekiden.redis_url in ~/.gemini/settings.json"
)
_PASSWORD = re.compile(rb"://[^\s\0:/@]*:([^\s\0/]+)@|[?&](?:ssl_)?password=([^\s\0&]+)")


def withdraw() -> None:
    """Take over what our starter has handed us, and take out of sight how we were started; the first thing to do.

    Raises:
        ConfigurationError: ``EKIDEN_SECRETS_FD`` does not name an open descriptor.
    """
    take(_handed())
    if any(_PASSWORD.search(os.fsencode(word)) for word in sys.argv):
        print(_SAID_OPENLY, file=sys.stderr, flush=True)  # noqa: T201 - whichever program this is, its user must know
    if sys.platform == "linux":
        _blacken()


def withheld(env: Mapping[str, str]) -> dict[str, str]:
    """Return what of ``env`` may not stand in a process's first environment."""
    return {name: value for name, value in env.items() if not is_open(name, value)}


def take(secrets: Mapping[str, str]) -> None:
    """Make ``secrets`` variables of this process, which nobody else can read any more."""
    os.environ.update(secrets)
    if any(looks_secret(name, value) for name, value in secrets.items()):
        _hide_memory()


def handed_on(env: Mapping[str, str]) -> tuple[dict[str, str], int | None]:
    """Split the environment of a child: into its first one, and a descriptor that holds the rest.

    The descriptor is to be passed on, and closed when the child has been started; None: there is no rest.
    """
    rest = withheld(env)
    if not rest:
        return dict(env), None
    data = b"\0".join(os.fsencode(f"{name}={value}") for name, value in rest.items())
    descriptor = _memory_with(data) if sys.platform == "linux" else _pipe_with(data)
    return open_part(env) | {SECRETS_FD: str(descriptor)}, descriptor


def _handed() -> dict[str, str]:
    """Read the descriptor, once, and close it."""
    name = os.environ.pop(SECRETS_FD, None)
    if name is None:
        return {}
    try:
        with open(int(name), "rb") as file:  # noqa: PTH123 - a descriptor is no path
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0")]
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"{SECRETS_FD} is {name!r}, expected an open descriptor: Ekiden sets it for its own children, unset it"
        ) from error
    return {variable: value for variable, _, value in pairs}


def _memory_with(data: bytes) -> int:
    reading = os.memfd_create("ekiden-secrets")
    os.write(reading, data)
    os.lseek(reading, 0, os.SEEK_SET)
    return reading


def _pipe_with(data: bytes) -> int:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        written = os.write(writing, data)
    finally:
        os.close(writing)
    if written < len(data):
        os.close(reading)
        raise ConfigurationError(f"the environment holds more than {written:,} bytes that may be secrets: unset some")
    return reading


def _blacken() -> None:
    """Wipe what is not open of our first environment, and passwords in our arguments, where the kernel shows them."""
    arguments, environment = _shown_by_the_kernel()
    secrets = dict(_secrets_in(environment))
    if not secrets and not _PASSWORD.search(arguments.data):
        return
    for found in _PASSWORD.finditer(arguments.data):
        arguments.wipe(*found.span(found.lastindex or 0), b"*")
    take({name: os.environ[name] for name in secrets if name in os.environ})  # the C library has a copy now
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
    found, start = [], 0
    for entry in environment.data.split(b"\0"):
        name, mark, value = os.fsdecode(entry).partition("=")
        end = start + len(entry)
        if mark and not is_open(name, value):
            found.append((name, (start, end)))
        start = end + 1
    return found


def _hide_memory() -> None:
    """Let no other process of our user look at our memory. There will be no core dump of it, either."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
