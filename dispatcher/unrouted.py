"""What becomes of a request for which no router chose anybody: the default agent, or a list to choose from."""

from ekiden.dispatcher.playable import PLAYED
from ekiden.dispatcher.routing.base import Route, RoutingResult, routable
from ekiden.dispatcher.routing.near_ties import numbered
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.records import RoutingStage

__all__ = ["listed", "nobody", "why_nobody", "with_default"]

_LISTED = 30

log = LateLogger(__name__)


def with_default(result: RoutingResult, catalog: Catalog, default: str | None) -> RoutingResult:
    """Return ``result``, or the ``default`` agent where nobody was chosen and there is one."""
    if result.route is not None or default is None:
        return result
    if default not in catalog:
        log.error("no_default_agent", agent=default, hint="no agent has the name in agents.routing.default_agent")
        return result
    route = Route(agent=default, stage="fallback", score=0, confidence=0)
    stage = RoutingStage(stage="fallback", agent=default, decided=True, note="nobody matched: the default agent")
    return result.model_copy(update={"route": route, "stages": (*result.stages, stage)})


def nobody(catalog: Catalog, result: RoutingResult, *, is_brief: bool = False, loaded: Catalog | None = None) -> str:
    """Say that no agent was chosen, why, and, unless ``is_brief``, which there are: numbered, the likeliest first.

    ``loaded``: all agents, where ``catalog`` has only some of them.
    """
    if not routable(loaded or catalog):
        return "no agents are loaded: put agent files into .gemini/agents/ and publish them (`ekiden catalog publish`)"
    if is_brief or not routable(catalog):
        return why_nobody(result)
    lines = numbered(listed(catalog, result))
    if (others := len(routable(catalog)) - len(lines)) > 0:
        lines.append(f"  and {others} others: `ekiden agents list`")
    return "\n".join([f"{why_nobody(result)}. Name one with @NAME or --agent NAME:", *lines])


def why_nobody(result: RoutingResult) -> str:
    """Say what each stage found wrong, or the one thing that stood in the way."""
    for stage in result.stages:
        if stage.stage in ("none", "agent", PLAYED):
            return stage.note
    found = [f"{stage.stage}: {stage.note}" for stage in result.stages if stage.note]
    return "no agent matches the request" + (f" ({'; '.join(found)})" if found else "")


def listed(catalog: Catalog, result: RoutingResult) -> list[AgentDefinition]:
    """Return whom the user may name instead, the likeliest first."""
    near = [route.agent for route in result.candidates]
    agents = sorted(routable(catalog), key=lambda agent: near.index(agent.name) if agent.name in near else len(near))
    return agents[:_LISTED]
