"""Jobs, pools and answers in the making, as people see them."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.errors import StopFlag
from ekiden.shared.job_limits import Spending
from ekiden.shared.risk import Risk

__all__ = ["NOTHING", "TERMINAL", "JobStatus", "JobView", "LivePiece", "PoolView", "Spent", "ToolView"]

JobStatus = Literal["waiting", "queued", "running", "suspended", "done", "unfinished", "failed", "cancelled", "dead"]
"""``waiting``: in the session's inbox, behind another job. ``unfinished``: see ``Ended``."""


TERMINAL = ("done", "unfinished", "failed", "cancelled", "dead")


class Spent(NamedTuple):
    """What a step used up; counted on the root job."""

    tokens: int = 0
    micro_usd: int = 0


NOTHING = Spent()


@dataclass(frozen=True)
class JobView:
    """A job as people see it. Times are the server's, in ms since the epoch."""

    id: str
    status: JobStatus
    agent: str
    leg: int
    queue: str
    handoff_id: str
    summary: str
    created_ms: int
    ended_ms: int | None
    attempts: int
    depth: int
    catalog: str
    cwd: str
    reason: str | None
    result: str | None
    stop: StopFlag | None
    """Who stopped the job, if anybody did."""
    spent: Spent = NOTHING
    """By the job and everything below it; counted on root jobs."""
    limits: Spending = field(default_factory=dict)
    """What all of them together may use up, and have; on root jobs, by the limit's name in files."""
    seq: int = 0
    """The journal's last position."""
    untrusted: bool = False
    """Whether it has read text whose author nobody vouches for."""
    request_id: str = ""
    """Of the submission that created it; a server that goes back may give a job's number to another request."""

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, however."""
        return self.status in TERMINAL


class LivePiece(BaseModel):
    """A piece of an answer in the making, or of what a tool shows while it runs.

    ``restart``: what came of this turn so far is void.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    leg: int
    fence: str
    """The attempt that wrote it: pieces of an older one are void."""
    turn: int
    text: str
    thought: bool = False
    restart: bool = False
    call: str = Field(default="", exclude_if=operator.not_)
    """The tool call that shows it; empty: the model writes it."""
    progress: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """How far the call is, from 0 to 1; ``text`` is what it is about then."""

    def continues(self, other: "LivePiece") -> bool:
        """Tell whether ``other`` can be joined to this piece."""
        if self.progress is not None or other.progress is not None:
            return False
        return (self.leg, self.turn, self.thought, self.call) == (other.leg, other.turn, other.thought, other.call)

    def with_more(self, text: str) -> "LivePiece":
        """Return this piece with ``text`` behind it."""
        return self.model_copy(update={"text": self.text + text})


@dataclass(frozen=True)
class ToolView:
    """What a worker announces of one of its tools."""

    name: str
    digest: str = ""
    """Of all that a model is told of it: workers whose tools of one name differ in it are of different versions."""
    package: str = ""
    """The distribution that it comes with; empty: an attribute that the settings name, or nobody said."""
    version: str = ""
    read_only: bool = False
    idempotent: bool = False
    untrusted: bool = False
    risk: Risk = "medium"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What a call of it is given, as JSON Schema; empty: it comes with Ekiden, or nobody said."""


@dataclass(frozen=True)
class PoolView:
    """What a pool process announces of itself."""

    id: str
    kind: Literal["dispatcher", "worker"]
    queues: tuple[str, ...]
    tools: tuple[ToolView, ...] = ()
    servers: Mapping[str, str] = field(default_factory=dict)
    """The MCP servers that a worker knows: empty where it has met nothing, else what is wrong."""
    strategies: tuple[str, ...] = ()
    """How a dispatcher can route, by name."""
    sandbox: str = ""
    """What confines commands of its tools, and what that leaves open; empty: it runs none, or nobody said."""
    problems: tuple[str, ...] = ()
    """What the settings ask for and the pool could not load."""
    capacity: int = 0
    in_flight: int = 0
    workspace_root: str | None = None
    version: str = ""
    host: str = ""
    pid: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)
