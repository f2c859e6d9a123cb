"""The base of hooks that interfere."""

from ekiden.shared.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, BeforeToolSelection, Event
from ekiden.shared.hooks.occasions import (
    AfterAgent,
    AfterHandoff,
    BeforeAgent,
    BeforeHandoff,
    BeforeRoute,
    Notification,
    PreCompress,
    SessionEnd,
    SessionStart,
)
from ekiden.shared.hooks.replies import HookReply

__all__ = ["EVENTS", "HOOK_TIMEOUT_S", "Intervening"]

EVENTS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in (
        SessionStart,
        SessionEnd,
        BeforeRoute,
        BeforeAgent,
        AfterAgent,
        BeforeModel,
        AfterModel,
        BeforeToolSelection,
        BeforeTool,
        AfterTool,
        BeforeHandoff,
        AfterHandoff,
        PreCompress,
        Notification,
    )
}
"""All of them, by name."""

HOOK_TIMEOUT_S = 60.0


class Intervening:
    """May interfere: the base of hooks, whose methods do nothing. Each is awaited, and the job waits with it."""

    timeout_s: float = HOOK_TIMEOUT_S
    """After how long the job goes on without its word."""
    required: bool = False
    """Whether the leg fails where the hook does; else it is passed over."""
    parallel: bool = False
    """Whether it is asked at the same time as its owner's neighbours that are, too; else it sees what they changed."""
    owner: str = ""
    """Whose it is: what others' hooks have changed it always sees."""

    async def before_tool(self, event: BeforeTool) -> HookReply | None:
        """Look at a call; ``args`` change it, which is checked and decided on after that, ``block`` answers it."""

    async def after_tool(self, event: AfterTool) -> HookReply | None:
        """Look at a result; ``result`` changes its text, ``block`` puts the reason in its place."""

    async def before_tool_selection(self, event: BeforeToolSelection) -> HookReply | None:
        """Choose tools for the turn; what ends the task always stays."""

    async def before_model(self, event: BeforeModel) -> HookReply | None:
        """Look at a request; ``request`` changes it, ``reply`` answers it, ``block`` ends the job."""

    async def after_model(self, event: AfterModel) -> HookReply | None:
        """Look at a reply; ``reply`` changes it, ``block`` ends the job."""

    async def session_start(self, event: SessionStart) -> HookReply | None:
        """Look at a request that begins; ``context`` is told to its first agent."""

    async def session_end(self, event: SessionEnd) -> HookReply | None:
        """Hear that a request is over."""

    async def before_route(self, event: BeforeRoute) -> HookReply | None:
        """Look at a request that is to be routed; ``agent`` says who gets it, ``block`` refuses it."""

    async def before_agent(self, event: BeforeAgent) -> HookReply | None:
        """Look at an agent that begins; ``context`` is told to it, ``block`` ends the job."""

    async def after_agent(self, event: AfterAgent) -> HookReply | None:
        """Look at an answer; ``answer`` changes it, ``block`` lets the agent go on, told why."""

    async def before_handoff(self, event: BeforeHandoff) -> HookReply | None:
        """Look at a handoff; ``args`` change its call, ``block`` refuses it."""

    async def after_handoff(self, event: AfterHandoff) -> HookReply | None:
        """Look at a handoff that was made; ``context`` is told to the agent that has control."""

    async def pre_compress(self, event: PreCompress) -> HookReply | None:
        """Look at a conversation that grows too long; ``context`` says what to keep, ``block`` keeps all."""

    async def notification(self, event: Notification) -> HookReply | None:
        """Hear that a person is asked."""

    def intervenes_at(self, event: str) -> bool:
        """Tell whether the hook is to be asked at the event of this name."""
        method = EVENTS[event].method
        return getattr(type(self), method) is not getattr(Intervening, method)

    async def intervene(self, event: Event) -> HookReply | None:
        """Say what the hook says of any event."""
        said: HookReply | None = await getattr(self, event.method)(event)
        return said
