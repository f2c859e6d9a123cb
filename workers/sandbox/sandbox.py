"""The sandbox of a worker's commands: which one there is, and what it leaves open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ekiden.shared.processes.confinement import UNLIMITED, Confinement, Limits, Ruleset
from ekiden.workers.sandbox import bubblewrap, landlock, seccomp
from ekiden.workers.sandbox.view import Place, Readable, without_parts

__all__ = ["OFF", "Mechanism", "Sandbox"]

Mechanism = Literal["bubblewrap", "landlock", "none"]
_NETWORK_OPEN = "network open"
_HOMES = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name folders which are not there."""


@dataclass(frozen=True)
class Sandbox:
    """What holds the commands of one worker.

    Attributes:
        mechanism: What keeps them from files and processes.
        limits: What each may use up.
        programs: What each may read beside its workspace.
        bwrap: The program, where it is the mechanism.
        abi: The version of Landlock, where it is the mechanism.
        has_filter: Whether system calls are filtered.
        why: Why it is no stronger one, for people.
    """

    mechanism: Mechanism = "none"
    limits: Limits = UNLIMITED
    programs: Sequence[Readable] = ()
    bwrap: str = ""
    abi: int = 0
    has_filter: bool = False
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether files and networks are kept from commands; see ``openings`` for all the rest."""
        return self.mechanism == "bubblewrap" or (self.mechanism == "landlock" and self.has_filter)

    def confinement(self, place: Place, *, network: bool, further: Sequence[Readable] = ()) -> Confinement:
        """Return what holds a command there.

        Args:
            place: Where it works.
            network: Whether its agent's file asks for one.
            further: What it may read beside ``programs``.
        """
        # What lies in the workspace is seen there anyway, and commands may put links to anything in its place.
        programs = without_parts([one for one in (*self.programs, *further) if not one.lies_below(place.root)])
        launcher: tuple[str, ...] = ()
        ruleset: Ruleset | None = None
        if self.mechanism == "bubblewrap":
            launcher = bubblewrap.launcher(self.bwrap, programs, place, network=network)
        elif self.mechanism == "landlock":
            ruleset = landlock.ruleset(self.abi, programs, place, network=network)
        return Confinement(self.limits, launcher, self._filter(network=network), ruleset)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return a command's environment: where the home is not seen, the private folder stands for it."""
        if self.mechanism == "none":
            return dict(env)
        rest = {name: value for name, value in env.items() if name not in _HOMES}
        if self.mechanism == "landlock":  # whoever makes the private folder names it
            return rest
        return rest | {"HOME": str(bubblewrap.PRIVATE), "TMPDIR": str(bubblewrap.PRIVATE)}

    def openings(self, *, network: bool = False) -> str:
        """Say what a command can reach that it should not; empty: nothing. For doctor, journal and approvals.

        Args:
            network: Whether the agent's file asks for a network: then an open one is no surprise.
        """
        found = []
        if not network and not self.closes_network:
            found.append(_NETWORK_OPEN)
        if self.mechanism == "none":
            found.append("files and processes of the worker's user open")
        if self.mechanism == "landlock":
            found += landlock.gaps(self.abi)
        return ", ".join(found)

    @property
    def told(self) -> str:
        """What a pool announces: the mechanism, and what is open."""
        opened = self.openings()
        name = "no sandbox" if self.mechanism == "none" else self.mechanism
        because = f" ({self.why})" if self.why else ""
        return f"{name}{because}" + (f"; open: {opened}" if opened else "")

    @property
    def closes_network(self) -> bool:
        """Whether commands can be kept from networks."""
        return self.mechanism == "bubblewrap" or self.has_filter

    def _filter(self, *, network: bool) -> bytes:
        if not self.has_filter:
            return b""
        local = seccomp.LOCAL if self.mechanism == "bubblewrap" and not network else frozenset[int]()
        reached = seccomp.NETWORK if network or self.mechanism == "bubblewrap" else frozenset[int]()
        return seccomp.program(local | reached)


OFF = Sandbox()
"""No sandbox, and no limits."""
