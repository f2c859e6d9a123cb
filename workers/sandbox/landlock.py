"""Landlock (landlock(7)): a process gives up all files but those named. It needs no rights, and no program."""

from collections.abc import Sequence

from ekiden.shared.processes.confinement import Ruleset
from ekiden.workers.sandbox.view import DEVICES, Place, Readable

__all__ = ["gaps", "ruleset"]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_LAST_BITS = {1: 12, 2: 13, 3: 14, 4: 14}
"""Version -> the last kind of access to files that it knows: from 2 on links to elsewhere, from 3 on truncation."""
_LATEST_BIT = 15
_PORTS_SINCE, _SCOPES_SINCE = 4, 6
_BOTH = 3
"""To bind and connect TCP ports; abstract sockets and signals outside the sandbox."""
_TOLD_BY_PROC = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys")
"""What is told of the machine, and of no process."""


def ruleset(abi: int, programs: Sequence[Readable], place: Place, *, network: bool) -> Ruleset:
    """Return the rules for a command; what this version cannot hold stands in ``gaps``."""
    everything = (1 << _LAST_BITS.get(abi, _LATEST_BIT) + 1) - 1
    within = everything & ~_MAKE_DEVICES
    rules = [(str(one.real), _READ) for one in programs]
    rules += [(f"/proc/{name}", _READ_FILE | _READ_DIR) for name in _TOLD_BY_PROC]
    rules += [(f"/dev/{name}", everything & (_READ_FILE | _WRITE_FILE)) for name in DEVICES]
    return Ruleset(
        handled_files=everything,
        handled_ports=_BOTH if abi >= _PORTS_SINCE and not network else 0,
        scoped=_BOTH if abi >= _SCOPES_SINCE else 0,
        rules=(*rules, (str(place.root), within)),
        private=within,
    )


def gaps(abi: int) -> list[str]:
    """Return what stays open, for people: a ruleset adds rights below a folder and cannot take one away there."""
    always = ["files in the workspace that programs take commands from can be written"]
    if abi < 3:
        always.append("files elsewhere can be emptied")
    if abi < _SCOPES_SINCE:
        always.append("processes of the worker's user can be ended")
    return always
