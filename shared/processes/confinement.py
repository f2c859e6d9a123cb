"""What holds a command that a tool runs: said by the worker, applied by the reaper before the command's first step.

This file stands on the standard library only: the reaper has nothing else.
"""

import os
from typing import Any, NamedTuple

__all__ = ["UNCONFINED", "UNLIMITED", "Confinement", "Limits", "Ruleset"]


class Limits(NamedTuple):
    """What a command may use up, with all that it starts; 0: as much as there is."""

    processes: int = 0
    """Processes and threads at a time."""
    memory_bytes: int = 0
    """Of each process, and of all together."""
    file_bytes: int = 0
    """Of each file that it writes."""


UNLIMITED = Limits()


class Ruleset(NamedTuple):
    """A Landlock ruleset: what is forbidden unless a rule allows it, as bits of landlock(7)."""

    handled_files: int
    handled_ports: int
    scoped: int
    rules: tuple[tuple[str, int], ...]
    """Paths, each with what may be done there and below. One that does not exist is left out: nothing lies there."""
    private: int
    """What may be done in the command's private folder."""


class Confinement(NamedTuple):
    """Everything that holds one command."""

    limits: Limits = UNLIMITED
    launcher: tuple[str, ...] = ()
    """A program that makes a sandbox, with its options: it gets ``--seccomp N -- COMMAND`` behind them.

    What begins with a null is a path, and stands for the number of a descriptor: it is opened without following links.
    """
    seccomp: bytes = b""
    """A filter of system calls (BPF), which the launcher installs, or the reaper where there is none."""
    ruleset: Ruleset | None = None

    def to_json(self) -> dict[str, Any]:
        """Write it for the reaper; text is the bytes of the file system's encoding, as Latin-1."""
        ruleset = self.ruleset and self.ruleset._replace(
            rules=tuple((_as_latin(path), access) for path, access in self.ruleset.rules)
        )
        return {
            "limits": self.limits,
            "launcher": list(map(_as_latin, self.launcher)),
            "seccomp": self.seccomp.hex(),
            "ruleset": ruleset,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Confinement":
        """Read what ``to_json`` wrote."""
        ruleset = values["ruleset"] and Ruleset(*values["ruleset"])
        return cls(
            Limits(*values["limits"]),
            tuple(map(_from_latin, values["launcher"])),
            bytes.fromhex(values["seccomp"]),
            ruleset and ruleset._replace(rules=tuple((_from_latin(path), access) for path, access in ruleset.rules)),
        )


UNCONFINED = Confinement()


def _as_latin(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def _from_latin(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))
