"""What happened in a job and when: its legs, the attempts at them, the steps of each, and the jobs it delegated."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ekiden.dispatcher.journal.actors import Actor
from ekiden.dispatcher.journal.call_states import CallStates
from ekiden.shared.ids import session_of
from ekiden.shared.messages import Message, ToolCall, Usage, user_message
from ekiden.shared.records import (
    Ended,
    Forked,
    HandedOff,
    JobRequested,
    ModelCall,
    Record,
    Routed,
    RoutingStage,
    Unrouted,
)
from ekiden.shared.todos import Todo

__all__ = ["Attempt", "AttemptEnd", "How", "Leg", "Step", "StepKind", "Story"]

StepKind = Literal[
    "route",
    "model",
    "tool",
    "approval",
    "handoff",
    "edge",
    "returned",
    "delegated",
    "refused",
    "suspended",
    "guardrail",
    "notice",
]
How = Literal["route", "delegation", "handoff", "automatic", "return", "edge"]
"""How control came to an agent; ``automatic``: its predecessor's file asked for it; ``edge``: a graph did."""
AttemptEnd = Literal["handoff", "suspended", "ended", "lost", "running"]


@dataclass
class Step:
    """Something that an agent did. ``end_ms`` None: not yet over when the journal was read; ``seq`` is its last record.

    Attributes:
        name: The model, the tool, the target, the child's agent, or the cause.
        detail: For people; may hold words of a prompt or of a model.
        heard: What a model call was told since the one before.
        record: What the journal has of it; None while it goes on.
        call: The tool call behind it.
        cost_usd: What a model call cost; None where nobody said.
        is_lost: The worker was lost while it ran.
        child: The job that was delegated.
        actor: Who does that.
        is_known: The agent has such a tool: its name is not the model's words.
        told: By whom, of a tool that did not run because a person has said what it gave.
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
    record: Record | ModelCall | None = None
    call: ToolCall | None = None
    cost_usd: float | None = None
    child: str = ""
    actor: Actor | None = None
    is_known: bool = False
    told: str = ""

    @property
    def whom(self) -> str:
        """Whom a step calls, as people tell them apart."""
        return str(self.actor or self.name)

    @property
    def usage(self) -> Usage:
        """The tokens of a model call, or of a routing by a model; none for anything else."""
        if isinstance(self.record, ModelCall):
            return self.record.usage
        return sum((stage.usage for stage in self.stages), Usage())

    @property
    def stages(self) -> tuple[RoutingStage, ...]:
        """What the stages of a routing found; none for anything else."""
        return self.record.stages if isinstance(self.record, Routed | Unrouted) else ()


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
    """One agent's stretch of a job; ``seq`` is the record that made it ready, ``moved`` that move of control."""

    number: int
    agent: str
    seq: int
    ready_ms: int
    attempts: list[Attempt] = field(default_factory=list)
    how: How = "route"
    moved: HandedOff | None = None
    actor: Actor | None = None
    """The agent with the nodes of graphs that it is in; None: nothing is known of them."""
    left_ms: int | None = None
    """When control moved on, or the job ended; None: it has it still."""

    @property
    def who(self) -> str:
        """The agent, as people tell it from others: ``draft (writer)``, of a graph's node."""
        return str(self.actor or self.agent)

    def opening(self, request: JobRequested | None) -> list[Message]:
        """Return what the agent reads first: the request and, of a handoff, what it was handed over with."""
        if not self.number or request is None:
            return []
        said = [request.prompt]
        if self.moved is not None and self.moved.kind != "route":
            context = self.moved.context
            back = context.returned.text if context.returned is not None else None
            payload = None if context.payload is None else json.dumps(context.payload, ensure_ascii=False)
            said += filter(None, (context.reason, context.context, context.summary, payload, back))
        return [user_message("\n\n".join(said))]

    @property
    def wait_ms(self) -> int | None:
        """How long it waited in its queue before it was taken first; None: it still waits."""
        return self.attempts[0].start_ms - self.ready_ms if self.attempts else None

    @property
    def steps(self) -> list[Step]:
        """The steps of all attempts, in order."""
        return [step for attempt in self.attempts for step in attempt.steps]

    @property
    def usage(self) -> Usage:
        """Its tokens, without those of the jobs that it delegated."""
        return _usage(self.steps)

    @property
    def cost_usd(self) -> float | None:
        """What they cost; None where nobody said."""
        return _cost_usd(self.steps)

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
    forked: Forked | None = None
    """Where its own steps begin, if it did not begin by itself: what stands before is another job's."""
    correlation_id: str = ""
    above: tuple[str, ...] = ("user",)
    """The path to who asked for it."""
    calls: CallStates = field(default_factory=CallStates)
    """How each call of a model stands."""
    children: dict[str, "Story"] = field(default_factory=dict)
    """The jobs that it delegated, by their ids, as far as their journals were read."""
    todos: tuple[Todo, ...] = ()
    """The plan as it stands."""

    @property
    def session(self) -> str:
        """The session that the job belongs to."""
        return session_of(self.job)

    @property
    def chain(self) -> list[str]:
        """Who had it, in order, from the user."""
        return [*self.above, *(leg.agent for leg in self.legs if leg.number)]

    @property
    def actors(self) -> list[str]:
        """The same, as people tell them apart: see ``Leg.who``."""
        return [*self.above, *(leg.who for leg in self.legs if leg.number)]

    @property
    def status(self) -> str:
        """How it stands, as far as its journal tells."""
        if self.end is not None:
            return self.end.status
        attempts = self.legs[-1].attempts if self.legs else []
        if not attempts:
            return "queued"
        return "suspended" if attempts[-1].end == "suspended" else "running"

    @property
    def tree(self) -> Iterator["Story"]:
        """It and all that were delegated below it."""
        yield self
        for child in self.children.values():
            yield from child.tree

    @property
    def steps(self) -> list[Step]:
        """The steps of all legs, in order."""
        return [step for leg in self.legs for step in leg.steps]

    @property
    def own_legs(self) -> list[Leg]:
        """The legs that it has worked on: in a fork, from the one that goes on."""
        first = self.forked.leg if self.forked is not None else 0
        return [leg for leg in self.legs if leg.number >= first]

    @property
    def own_steps(self) -> list[Step]:
        """The steps of all legs that no other job has paid for."""
        shared = self.forked.seq if self.forked is not None else 0
        return [step for step in self.steps if step.seq > shared]

    @property
    def usage(self) -> Usage:
        """All its tokens, without those of its children."""
        return _usage(self.own_steps)

    @property
    def cost_usd(self) -> float | None:
        """What all model calls cost together; None where nobody said of any."""
        return _cost_usd(self.own_steps)

    @property
    def total_usage(self) -> Usage:
        """All tokens, also those of the jobs below it."""
        return sum((story.usage for story in self.tree), Usage())

    @property
    def total_cost_usd(self) -> float | None:
        """What they cost."""
        return _cost_usd(step for story in self.tree for step in story.own_steps)

    def count(self, kind: StepKind) -> int:
        """Count its own steps of a kind, also those of the jobs below it."""
        return sum(step.kind == kind for story in self.tree for step in story.own_steps)

    def adopt(self, child: "Story") -> None:
        """Take in a job that this one delegated: its step lasts as long as the job does."""
        self.children[child.job] = child
        for step in self.steps:
            if step.child == child.job and child.end is not None:
                step.end_ms = child.now_ms


def _usage(steps: Iterable[Step]) -> Usage:
    return sum((step.usage for step in steps), Usage())


def _cost_usd(steps: Iterable[Step]) -> float | None:
    costs = [step.cost_usd for step in steps if step.cost_usd is not None]
    return sum(costs) if costs else None
