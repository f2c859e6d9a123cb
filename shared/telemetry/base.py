"""What the relay tells of its work. Nobody listens unless a process installs somebody: then nothing is done here.

One seam for spans and metrics alike: the relay calls ``telemetry()`` where a job is submitted, a leg begins and ends, a
record is written, a job ends. Whoever is installed makes of it what the settings ask for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Outcome, Transfer
from ekiden.shared.records import Entry, Record
from ekiden.shared.stores.base import Claimed, CommitVerdict
from ekiden.shared.stores.submissions import ChildSubmission

__all__ = ["LegObserver", "QueueGauge", "RunsTools", "Telemetry", "install", "is_installed", "telemetry"]


class RunsTools(Protocol):
    """What runs an agent's tool calls."""

    async def run(self, call: ToolCall, context: Any) -> ToolResult:
        """Run one call; never raises but when it is cancelled."""
        ...


@dataclass(frozen=True)
class QueueGauge:
    """How full an agent's queue is."""

    agent: str
    depth: int
    age_s: float
    """How long the oldest message has waited; 0 for an empty queue."""


class LegObserver:
    """Watches one attempt at a leg; this one does nothing."""

    def opened(self, entries: Sequence[Entry]) -> None:
        """Take note of the journal that the leg goes on from; ``entries`` grows with the leg."""

    def equipped(self, definition: AgentDefinition, model_name: str) -> None:
        """Take note of who runs, and on which model."""

    def model(self, model: ChatModel) -> ChatModel:
        """Return ``model``, watched."""
        return model

    def tool_runner(self, tool_runner: RunsTools, tools: Sequence[str]) -> RunsTools:
        """Return ``gate``, watched; ``tools`` are the names that it runs."""
        return tool_runner

    def recorded(self, records: Sequence[Record]) -> None:
        """Take note of steps that are in the journal now."""

    def transferred(self, transfer: Transfer, queue: str) -> None:
        """Take note of a handoff, or a route, that is committed and sent to ``queue``."""

    def delegated(self, children: Sequence[ChildSubmission]) -> None:
        """Take note of child jobs that are begun and sent to their agents."""

    def committed(self, outcome: Outcome, verdict: CommitVerdict) -> None:
        """Take note of the verdict on the leg's outcome."""


class Telemetry:
    """Hears of everything; this one does nothing."""

    wants_queues = False
    """Whether it is worth while to look how full the queues are."""

    def submitted(self, job: str, traceparent: str, handoff_id: str, queue: str, began_ns: int) -> None:
        """Take note of a job that is stored and queued; ``began_ns``: when it was sent off."""

    @contextmanager
    def leg(self, claimed: Claimed, queue: str) -> Iterator[LegObserver]:
        """Watch a claimed leg while the block runs."""
        yield _IDLE

    def ended(self, job: str, entries: Sequence[Entry], records: Sequence[Record]) -> None:
        """Take note of the end of a job: ``entries`` are its journal, ``records`` what has just been put behind it."""

    def recovered(self, job: str) -> None:
        """Take note of a leg whose message was pushed again."""

    def renewed_late(self, late_s: float) -> None:
        """Take note of leases that were renewed later than they should be."""

    def queues(self, gauges: Sequence[QueueGauge]) -> None:
        """Take note of how full the queues are."""

    def suspended(self, jobs: Mapping[str, int]) -> None:
        """Take note of how many jobs are suspended, by cause."""

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""


_IDLE = LegObserver()
_installed: list[Telemetry] = [Telemetry()]


def telemetry() -> Telemetry:
    """Return who listens in this process."""
    return _installed[-1]


def is_installed() -> bool:
    """Tell whether anybody listens in this process."""
    return len(_installed) > 1


def install(listener: Telemetry) -> Callable[[], bool]:
    """Let ``listener`` hear of everything from now on; call what is returned to take it out again.

    That answers whether there was still something to take out.
    """
    _installed.append(listener)

    def remove() -> bool:
        if listener not in _installed[1:]:
            return False
        _installed.remove(listener)
        return True

    return remove
