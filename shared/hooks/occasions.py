"""Where hooks may interfere beside the steps of a turn: when a request, an agent, a handoff begins or ends."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from ekiden.shared.hooks.events import BeforeTool, Event
from ekiden.shared.hooks.replies import HookReply

__all__ = [
    "AfterAgent",
    "AfterHandoff",
    "BeforeAgent",
    "BeforeHandoff",
    "BeforeRoute",
    "Notification",
    "PreCompress",
    "SessionEnd",
    "SessionStart",
]


@dataclass(frozen=True)
class BeforeHandoff(BeforeTool):
    """Control is about to move to another agent: by a call of the model's, or because the agent's file says so."""

    name: ClassVar[str] = "BeforeHandoff"
    method: ClassVar[str] = "before_handoff"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "ask", "note", "args"})

    to: str = ""
    is_automatic: bool = False
    """It is the agent's file that says so: there are no arguments to change, and nobody is asked."""

    @property
    def subject(self) -> str:
        """See ``Event``: who gets control."""
        return self.to

    @property
    def allowed(self) -> frozenset[str]:
        """See ``Event``: an automatic one can be blocked, not changed."""
        return self.takes - {"ask", "args"} if self.is_automatic else self.takes


@dataclass(frozen=True)
class AfterHandoff(Event):
    """Control has moved, and the agent that has it now is about to begin."""

    name: ClassVar[str] = "AfterHandoff"
    method: ClassVar[str] = "after_handoff"
    takes: ClassVar[frozenset[str]] = frozenset({"stop", "context", "note"})

    came_from: str
    reason: str

    @property
    def subject(self) -> str:
        """See ``Event``: who has control."""
        return self.place.agent


@dataclass(frozen=True)
class SessionStart(Event):
    """The first agent of a request is about to begin."""

    name: ClassVar[str] = "SessionStart"
    method: ClassVar[str] = "session_start"
    takes: ClassVar[frozenset[str]] = frozenset({"stop", "context", "note"})

    source: Literal["startup", "resume"]
    """Whether it is the session's first request."""

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.source


@dataclass(frozen=True)
class BeforeAgent(Event):
    """An agent is about to take its first turn of a leg."""

    name: ClassVar[str] = "BeforeAgent"
    method: ClassVar[str] = "before_agent"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "context", "note"})

    prompt: str
    """What the user asked for, or the agent that delegated it."""


@dataclass(frozen=True)
class AfterAgent(Event):
    """An agent has answered: its words are about to end the job, or to go to whoever waits for them."""

    name: ClassVar[str] = "AfterAgent"
    method: ClassVar[str] = "after_agent"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "note", "answer"})

    prompt: str
    answer: str
    output: Any = None
    """A structured answer."""
    is_retry: bool = False
    """It was blocked before, and the agent went on."""

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``."""
        if reply.answer is None:
            return self
        if self.output is not None:
            raise ValueError("a structured answer can be blocked, not changed")
        return replace(self, answer=reply.answer)


@dataclass(frozen=True)
class PreCompress(Event):
    """A conversation is about to be compressed."""

    name: ClassVar[str] = "PreCompress"
    method: ClassVar[str] = "pre_compress"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "context", "note"})

    trigger: str = "auto"
    tokens: int = 0
    """Of the request that would be too large, by estimate."""

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.trigger


@dataclass(frozen=True)
class Notification(Event):
    """Somebody has been asked to approve a call, or a question. Told afterwards: nothing waits for it."""

    name: ClassVar[str] = "Notification"
    method: ClassVar[str] = "notification"

    kind: str
    """``ToolPermission`` or ``Question``."""
    message: str
    details: dict[str, Any]
    """The approval, as JSON."""

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.kind


@dataclass(frozen=True)
class SessionEnd(Event):
    """A request is over, whoever ended it. Told afterwards: nothing waits for it."""

    name: ClassVar[str] = "SessionEnd"
    method: ClassVar[str] = "session_end"

    status: str
    """``done``, ``unfinished``, ``failed``, ``cancelled`` or ``dead``."""
    answer: str = ""
    """What was answered, or why nothing was."""

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.status


@dataclass(frozen=True)
class BeforeRoute(Event):
    """An agent is about to be chosen for a request."""

    name: ClassVar[str] = "BeforeRoute"
    method: ClassVar[str] = "before_route"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "note", "agent"})

    prompt: str
    agents: tuple[str, ...]
    """All there are."""
    agent: str = ""
    """Whom the user named, or a hook; empty: nobody."""

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``."""
        if reply.agent is not None and reply.agent not in self.agents:
            raise ValueError(f"there is no agent {reply.agent!r:.100}")
        return self if reply.agent is None else replace(self, agent=reply.agent)
