"""Which tools an agent may use in a leg."""

from collections.abc import Callable

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.relay.leg import Leg
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.registry import Registry

__all__ = ["permits"]


def permits(definition: AgentDefinition, leg: Leg, registry: Registry) -> Callable[[str], bool]:
    """Return whether the agent may use a tool: by its own file, and by those of the agents that delegated the job."""

    def may(name: str) -> bool:
        reads = _only_reads(registry.get(name))
        own = definition.permits(name, only_reads=reads)
        return own and all(rules.permits(name, only_reads=reads) for rules in leg.request.bounds)

    return may


def _only_reads(tool: Tool | None) -> bool:
    return tool is not None and tool.read_only and not tool.untrusted
