"""What happened in a job and when: its legs, the attempts at them, and the steps of each."""

from dataclasses import dataclass, field
from typing import Literal

from shared.ids import session_of
from shared.messages import Message, ToolCall, Usage
from shared.records import Ended, JobRequested, ModelReplied, Record

__all__ = ["Attempt", "AttemptEnd", "Leg", "Step", "StepKind", "Story"]

StepKind = Literal["route", "model", "tool", "handoff", "refused", "suspended", "notice"]
AttemptEnd = Literal["handoff", "suspended", "ended", "lost", "running"]


@dataclass
class Step:
    """Something that an agent did. ``end_ms`` None: not yet over when the journal was read; ``seq`` is its last record.

    Attributes:
        name: The model, the tool, the target, or the cause.
        detail: For people; may hold words of a prompt or of a model.
        heard: What a model call was told since the one before.
        record: What the journal has of it; None while it goes on.
        call: The tool call behind it.
        cost_usd: What a model call cost; None where nobody said.
        is_lost: The worker was lost while it ran.
    """

    kind: StepKind
    seq: int
    name: str
    start_ms: int
    end_ms: int | None
    detail: str = ""
    is_error: bool = False
    is_lost: bool = False
    heard: tuple[Message, ...] = ()
    record: Record | None = None
    call: ToolCall | None = None
    cost_usd: float | None = None

    @property
    def usage(self) -> Usage:
        """The tokens of a model call; none for anything else."""
        return self.record.usage if isinstance(self.record, ModelReplied) else Usage()


@dataclass
class Attempt:
    """One worker's stretch of a leg. ``ready_ms``: since when it waited for a worker."""

    number: int
    worker: str
    ready_ms: int
    start_ms: int
    end_ms: int | None = None
    is_takeover: bool = False
    """It goes on where a lost worker was."""
    end: AttemptEnd = "running"
    steps: list[Step] = field(default_factory=list)


@dataclass
class Leg:
    """One agent's stretch of a job; ``seq`` is the record that made it ready."""

    number: int
    agent: str
    seq: int
    ready_ms: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def wait_ms(self) -> int | None:
        """How long it waited in its queue before it was taken first; None: it still waits."""
        return self.attempts[0].start_ms - self.ready_ms if self.attempts else None

    @property
    def steps(self) -> list[Step]:
        """The steps of all attempts, in order."""
        return [step for attempt in self.attempts for step in attempt.steps]

    @property
    def end_ms(self) -> int | None:
        """When its last attempt ended; None: it has not."""
        return self.attempts[-1].end_ms if self.attempts else None


@dataclass
class Story:
    """A job from its request to ``now_ms``: its end, or the present while it goes on."""

    job: str
    now_ms: int
    request: JobRequested | None = None
    start_ms: int = 0
    legs: list[Leg] = field(default_factory=list)
    end: Ended | None = None
    end_seq: int = 0
    correlation_id: str = ""

    @property
    def session(self) -> str:
        """The session that the job belongs to."""
        return session_of(self.job)

    @property
    def chain(self) -> list[str]:
        """Who had it, in order, from the user."""
        return ["user", *(leg.agent for leg in self.legs if leg.number)]

    @property
    def steps(self) -> list[Step]:
        """The steps of all legs, in order."""
        return [step for leg in self.legs for step in leg.steps]

    @property
    def usage(self) -> Usage:
        """All tokens."""
        return sum((step.usage for step in self.steps), Usage())

    @property
    def cost_usd(self) -> float | None:
        """What all model calls cost together; None where nobody said of any."""
        costs = [step.cost_usd for step in self.steps if step.cost_usd is not None]
        return sum(costs) if costs else None

    def count(self, kind: StepKind) -> int:
        """Count the steps of a kind."""
        return sum(step.kind == kind for step in self.steps)
