"""Where an agent's commands work in a leg: what they may reach, and what its model is told of that."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.instruction_parts import NO_PLACE, Place, is_repository
from ekiden.shared.relay.leg import Leg
from ekiden.workers.sandbox.sandbox import Sandbox

__all__ = ["network_of", "place_of"]


async def place_of(agent: AgentDefinition, leg: Leg, sandbox: Sandbox, cwd: Path, tools: Collection[str]) -> Place:
    """Return what a model is told of where its commands work; nothing where none of its ``tools`` runs any."""
    if not {"bash", "git_commit"}.intersection(tools):
        return NO_PLACE
    return Place(
        sandbox=sandbox.mechanism if sandbox.holds else "",
        has_network=bool(network_of(agent, leg)) or not sandbox.closes_network,
        is_repository=await asyncio.to_thread(is_repository, cwd),
    )


def network_of(definition: AgentDefinition, leg: Leg) -> bool | None:
    """Return whether the agent's commands may reach a network: nobody who delegated the job has less."""
    said = [rules.network for rules in (definition.rules, *leg.request.bounds)]
    return False if False in said else None if None in said else True
