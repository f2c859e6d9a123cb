"""MCP servers that are not there: what they offered then is offered again."""

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.relay.leg import Leg
from ekiden.workers.mcp.agents import allowed_of
from ekiden.workers.mcp.served import offered_of
from ekiden.workers.mcp.toolbox import Offered
from ekiden.workers.playback.recorded import Recordings

__all__ = ["RecordedServers"]


class RecordedServers:
    """Offer agents what is recorded; what they may use of it is decided anew."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def unknown(self, _: AgentDefinition) -> tuple[str, ...]:
        """Return nothing: which servers were missing is recorded."""
        return ()

    async def offered_to(self, agent: AgentDefinition, leg: Leg) -> Offered:
        """Return what was offered at this place of the job; nothing, where that is not recorded."""
        served = self._recordings.of(leg.job).served_to(leg.agent, leg.number, len(leg.conversation.turns))
        return allowed_of(offered_of(served), agent, leg) if served is not None else Offered()
