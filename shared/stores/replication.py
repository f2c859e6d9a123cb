"""How many replicas must have a change before it counts, and what follows where they do not have it in time.

A server may be lost, and a replica that lags take its place: then all is forgotten that this one did not have yet.
"""

import time
from typing import Protocol

from ekiden.shared.errors import NotConfirmed
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.once import StateChange

__all__ = ["ReplicaWait", "ReportReplicas", "RequireReplicas"]

WAIT_S = 1.0
"""How long replicas may take; those that are well take as long as the way there and back."""
AWAY_S = 0.02
"""The same once they have not come: a pool's commits must not queue behind replicas that are gone."""
AGAIN_S = 5.0
"""How long after that the first one waits as long as ever: they may be far away rather than gone."""

log = LateLogger(__name__)


class ReplicaWait(Protocol):
    """Whether changes are waited for, and who is told of the result."""

    wanted: int
    """How many replicas must have a change; 0: nobody waits."""

    @property
    def wait_s(self) -> float:
        """How long they may take."""
        ...

    def heard(self, job: str, replicas: int, trouble: str = "") -> None:
        """Take note that ``replicas`` have a change of ``job``, which is done; ``trouble``: why nobody can tell."""
        ...


class RequireReplicas:
    """A client's way: what is not confirmed is an error, and whoever asked decides what to do."""

    wait_s = WAIT_S

    def __init__(self, wanted: int = 0) -> None:
        self.wanted = wanted

    def heard(self, job: str, replicas: int, trouble: str = "") -> None:
        """See ``ReplicaWait``. Raises ``NotConfirmed``."""
        if replicas < self.wanted:
            because = trouble or f"{replicas} had it after {self.wait_s:g} s"
            raise NotConfirmed(
                f"not confirmed: what was done to job {job!r} is stored, but may be lost with the server: "
                f"{self.wanted} replica(s) were to have it (ekiden.wait_replicas; {because})",
                job,
            )


class ReportReplicas:
    """A pool's way: its commit is done, and undoing it would help nobody; it says so once, and once that it is over."""

    def __init__(self, wanted: int = 0) -> None:
        self.wanted = wanted
        self._replicas = StateChange()
        self._again_at = 0.0

    @property
    def wait_s(self) -> float:
        """See ``ReplicaWait``: hardly at all while they are away."""
        return AWAY_S if not self._replicas.is_well and time.monotonic() < self._again_at else WAIT_S

    def heard(self, job: str, replicas: int, trouble: str = "") -> None:
        """See ``ReplicaWait``."""
        are_away = replicas < self.wanted
        if are_away and time.monotonic() >= self._again_at:
            self._again_at = time.monotonic() + AGAIN_S
        if not self._replicas.note(is_well=not are_away):
            return
        if are_away:
            log.warning("not_confirmed", job=job, replicas=replicas, wanted=self.wanted, trouble=trouble)
        else:
            log.warning("confirmed_again", replicas=replicas)
