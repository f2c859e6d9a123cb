"""A filter of system calls: no sockets but those that are allowed, and nothing that no build and no test needs.

A BPF program of seccomp(2), written for the machine that it runs on: numbers of system calls differ from one to the
other. What it forbids fails with ``EPERM``.
"""

import errno
import platform
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

__all__ = ["LOCAL", "NETWORK", "is_available", "program"]

LOCAL = frozenset({1})
"""``AF_UNIX``."""
NETWORK = frozenset({2, 10, 16})
"""``AF_INET``, ``AF_INET6``, and ``AF_NETLINK``, by which programs learn which addresses they have."""


@dataclass(frozen=True)
class _Machine:
    arch: int
    """As audit(7) knows it: 32-bit programs on the same machine have another one."""
    socket: int
    socketpair: int
    clone: int
    prlimit64: int
    forbidden: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    """The calls that give a file its mode, and which argument that is, from 0."""
    opens: tuple[tuple[int, int], ...]
    """The calls that may make a file, and which argument its flags are; the mode is the next one."""


_CLONE3, _OPENAT2 = 435, 437
_FCHMODAT2 = (452, 2)
_EVERYWHERE = (
    *(425, 426, 427),  # io_uring_*: opens sockets behind the filter's back
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    438,  # pidfd_getfd
)
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        41,
        53,
        56,
        302,
        (
            *(165, 166, 155, 272, 308),  # mount, umount2, pivot_root, unshare, setns
            *(303, 304),  # name_to_handle_at, open_by_handle_at
            *(248, 249, 250),  # add_key, request_key, keyctl
            *(321, 298, 323),  # bpf, perf_event_open, userfaultfd
            *(246, 320, 175, 313, 176),  # kexec_load, kexec_file_load, init_module, finit_module, delete_module
            *(167, 168, 169, 172, 173),  # swapon, swapoff, reboot, iopl, ioperm
        ),
        (
            (90, 1),
            (91, 1),
            (268, 2),
            _FCHMODAT2,
            (85, 1),
            (133, 1),
            (259, 2),
        ),  # chmod and its kind, creat, mknod, mknodat
        ((2, 1), (257, 2)),  # open, openat
    ),
    "aarch64": _Machine(
        0xC00000B7,
        198,
        199,
        220,
        261,
        (
            *(40, 39, 41, 97, 268),  # the same, in the same order
            *(264, 265),
            *(217, 218, 219),
            *(280, 241, 282),
            *(104, 294, 105, 273, 106),
            *(224, 225, 142),
        ),
        ((52, 1), (53, 2), _FCHMODAT2, (33, 2)),
        ((56, 2),),
    ),
}
_X32 = 0x40000000
"""From this number on, system calls of x86_64 are another table's."""
_NAMESPACES = 0x7E020000
"""The flags of clone(2) that make namespaces, user namespaces among them."""

_CREATES = 0x40 | 0x400000
"""``O_CREAT``, and what ``O_TMPFILE`` has more than a folder's flags; without them there may be anything for a mode."""
_SETS_USER = 0o4000
"""``S_ISUID``: whoever starts such a file is the worker's user."""

_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST = 0, 4, 16
"""Where in seccomp_data the number of the call, the machine and the first argument lie; both are little-endian."""
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_UNKNOWN = 0x00050000 | errno.ENOSYS

Instruction = tuple[int, int, int, int]


def is_available() -> bool:
    """Tell whether there is a filter for this machine."""
    return sys.platform == "linux" and sys.byteorder == "little" and platform.machine() in _MACHINES


@cache
def program(families: frozenset[int]) -> bytes:
    """Return the filter that allows sockets of these address families."""
    machine = _MACHINES[platform.machine()]
    return b"".join(struct.pack("=HBBI", *one) for one in _instructions(machine, families))


def _instructions(machine: _Machine, families: Collection[int]) -> Iterator[Instruction]:
    yield (_LOAD, 0, 0, _ARCH)
    yield from _unless(machine.arch, _REFUSE)
    yield (_LOAD, 0, 0, _NUMBER)
    if machine.arch == _MACHINES["x86_64"].arch:
        yield from ((_JUMP_FROM, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE))
    for number in (*_EVERYWHERE, *machine.forbidden):
        yield from _when(number, [(_RETURN, 0, 0, _REFUSE)])
    for number in (_CLONE3, _OPENAT2):  # whose flags no filter sees; libraries go back to clone and openat
        yield from _when(number, [(_RETURN, 0, 0, _UNKNOWN)])
    yield from _when(machine.clone, _without(0, _NAMESPACES))
    for number, mode in machine.modes:
        yield from _when(number, _without(mode, _SETS_USER))
    for number, flags in machine.opens:
        makes = [(_LOAD, 0, 0, _argument(flags)), (_JUMP_ANY, 1, 0, _CREATES), (_RETURN, 0, 0, _ALLOW)]
        yield from _when(number, [*makes, *_without(flags + 1, _SETS_USER)])
    yield from _when(machine.socket, _first_of(families))
    yield from _when(machine.socketpair, _first_of([socket.AF_UNIX]))
    yield from _when(machine.prlimit64, _first_of([0]))  # of oneself, not of the worker
    yield (_RETURN, 0, 0, _ALLOW)


def _argument(place: int) -> int:
    return _FIRST + 8 * place


def _without(place: int, bits: int) -> list[Instruction]:
    """Allow the call if none of ``bits`` is set in that argument."""
    test = [(_LOAD, 0, 0, _argument(place)), (_JUMP_ANY, 1, 0, bits)]
    return [*test, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]


def _unless(value: int, result: int) -> Iterator[Instruction]:
    yield from ((_JUMP_EQUAL, 1, 0, value), (_RETURN, 0, 0, result))


def _when(number: int, then: list[Instruction]) -> Iterator[Instruction]:
    """Do ``then``, which ends in a return, for the call of this number."""
    yield (_JUMP_EQUAL, 0, len(then), number)
    yield from then


def _first_of(values: Collection[int]) -> list[Instruction]:
    """Allow the call if its first argument is one of ``values``."""
    tests: list[Instruction] = []
    for value in sorted(values):
        tests += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [(_LOAD, 0, 0, _FIRST), *tests, (_RETURN, 0, 0, _REFUSE)]
