"""Where hooks may interfere with a turn: what they are shown there, and what they may say to it.

Events are named as in gemini-cli, and ours beside them. What a hook may say depends on the event: see ``Event.takes``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ekiden.shared.hooks.replies import HookReply, ToolChoice
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import Message, ToolCall, ToolResult

__all__ = ["AfterModel", "AfterTool", "BeforeModel", "BeforeTool", "BeforeToolSelection", "Event", "Place"]

NOBODY_TO_ASK = "a person would have to be asked, and here nobody is"
_AGAINST = frozenset({"block", "stop", "ask"})
_BESIDE = frozenset({"block", "stop", "context", "note"})
"""What counts of a reply that blocks or stops."""


@dataclass(frozen=True)
class Place:
    """Where in which job something happens."""

    session: str = ""
    job: str = ""
    leg: int = 0
    agent: str = ""
    turn: int = 0
    """The leg's turn, from 1."""
    cwd: str = ""
    """The job's folder; empty: it has none."""
    is_delegated: bool = False
    """Whether the job is one that another agent has begun."""


@dataclass(frozen=True)
class Event:
    """Something that hooks are asked about."""

    name: ClassVar[str] = ""
    method: ClassVar[str] = ""
    """Of ``Intervening``."""
    takes: ClassVar[frozenset[str]] = frozenset({"note"})
    """What a reply to it may set: see ``allowed``."""

    place: Place

    @property
    def allowed(self) -> frozenset[str]:
        """What a reply may set to this one: anything else is a fault of the hook."""
        return self.takes

    def heard(self, reply: HookReply) -> HookReply:
        """Return what counts of ``reply``: where nobody can be asked, whoever wants that blocks.

        Who blocks or stops changes nothing; nor does what else is said, and means nothing here, undo a word against it.
        """
        if reply.ask and "ask" not in self.allowed:
            reply = replace(reply, ask="", block=reply.block or f"{reply.ask} ({NOBODY_TO_ASK})")
        against = {one for one in reply.said if one in _AGAINST & self.allowed}
        if not against:
            return reply
        counts = self.allowed if against == {"ask"} else self.allowed & _BESIDE
        return HookReply(**{one: getattr(reply, one) for one in counts})

    @property
    def subject(self) -> str:
        """What matchers of commands look at: a tool's name; empty: nothing."""
        return ""

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """Return the event as ``reply`` changes it, which was said of the event as it was ``seen``.

        Raises ``ValueError`` for a change that cannot be made.
        """
        return self


@dataclass(frozen=True)
class BeforeTool(Event):
    """A call that is in order is about to be decided on, and then to run."""

    name: ClassVar[str] = "BeforeTool"
    method: ClassVar[str] = "before_tool"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "ask", "context", "note", "args"})

    call: ToolCall

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.call.name

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``: of hooks that ran side by side, each changes what it changed of what it saw."""
        if reply.args is None:
            return self
        before, now = seen.call.args, {**self.call.args}
        for name in before.keys() - reply.args.keys():
            now.pop(name, None)
        now |= {name: value for name, value in reply.args.items() if name not in before or before[name] != value}
        return replace(self, call=self.call.model_copy(update={"args": now}))


@dataclass(frozen=True)
class AfterTool(Event):
    """A tool has run, and its result is about to be recorded."""

    name: ClassVar[str] = "AfterTool"
    method: ClassVar[str] = "after_tool"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "context", "note", "result"})

    call: ToolCall
    result: ToolResult

    @property
    def subject(self) -> str:
        """See ``Event``."""
        return self.call.name

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``. What programs would get, and what is kept of a longer text, goes with the text it was."""
        if reply.result is None:
            return self
        return replace(
            self,
            result=self.result.model_copy(update={"content": reply.result, "data": None, "whole": "", "own": None}),
        )


@dataclass(frozen=True)
class BeforeToolSelection(Event):
    """A model is about to be offered its tools."""

    name: ClassVar[str] = "BeforeToolSelection"
    method: ClassVar[str] = "before_tool_selection"
    takes: ClassVar[frozenset[str]] = frozenset({"note", "tools"})

    request: ModelRequest
    choice: ToolChoice | None = None
    """What hooks have said so far."""

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``."""
        if reply.tools is None:
            return self
        return replace(self, choice=self.choice.joined(reply.tools) if self.choice else reply.tools)


@dataclass(frozen=True)
class BeforeModel(Event):
    """A model is about to be asked for an agent's next turn."""

    name: ClassVar[str] = "BeforeModel"
    method: ClassVar[str] = "before_model"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "note", "request", "reply"})

    request: ModelRequest

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``."""
        if reply.reply is not None:
            _refuse_unfit_reply(reply.reply)
        if reply.request is None:
            return self
        _refuse_unfit_request(self.request, reply.request)
        return replace(self, request=reply.request)


@dataclass(frozen=True)
class AfterModel(Event):
    """A model has replied, and the whole reply is about to be recorded."""

    name: ClassVar[str] = "AfterModel"
    method: ClassVar[str] = "after_model"
    takes: ClassVar[frozenset[str]] = frozenset({"block", "stop", "note", "reply"})

    request: ModelRequest
    reply: ModelReply

    def changed(self, reply: HookReply, seen: Self) -> Self:
        """See ``Event``."""
        if reply.reply is None:
            return self
        _refuse_unfit_reply(reply.reply)
        return replace(self, reply=reply.reply)


def _refuse_unfit_reply(reply: ModelReply) -> None:
    """Raise ``ValueError`` for what is no reply of a model's."""
    ids = [call.id for call in reply.message.calls]
    if reply.message.role != "model" or reply.message.results or len(set(ids)) < len(ids):
        raise ValueError("a reply is a message of the model's, without results, whose calls have ids of their own")


def _refuse_unfit_request(built: ModelRequest, said: ModelRequest) -> None:
    """Raise ``ValueError`` for what no model can be asked in the place of ``built``."""
    if (said.agent, said.model) != (built.agent, built.model):
        raise ValueError("the agent and the model of a request stay")
    if said.tools != built.tools or said.forced_tools != built.forced_tools:
        raise ValueError("tools are chosen at BeforeToolSelection")
    if not said.messages or said.messages[0].role != "user":
        raise ValueError("the messages of a request begin with the user's")
    _refuse_unpaired(said.messages)


def _refuse_unpaired(messages: Iterable[Message]) -> None:
    """Raise ``ValueError`` unless every message with calls is followed by one with their results, in their order."""
    waiting: list[str] = []
    for message in messages:
        results = [result.call_id for result in message.results]
        if results != waiting:
            raise ValueError(f"the results of calls stand right behind them: of {waiting} there are {results}")
        waiting = [call.id for call in message.calls]
    if waiting:
        raise ValueError(f"the calls {waiting} have no results")
