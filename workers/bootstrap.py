"""Builds what a worker runs; the only file here that picks implementations."""

import os

from shared.definitions.loader import shipped_agents_dir
from shared.llm.models import Models, ModelValues
from shared.relay.served import Served
from shared.settings import Settings
from shared.stores.opening import Stores
from workers.leg import AgentHandler, Definitions
from workers.tools.gate import ToolGate
from workers.tools.registry import builtin_registry

__all__ = ["build"]


async def build(settings: Settings, stores: Stores) -> Served:
    """Return the handler of agent legs with its tools and models."""
    registry = builtin_registry(workspace=settings.workspace_root is not None)
    handler = AgentHandler(
        Definitions(stores.catalogs),
        registry,
        ToolGate(registry, settings.tool_threads),
        Models(_model_values(settings), os.environ),
        workspace_root=settings.workspace_root,
    )
    return Served(handler, registry.names())


def _model_values(settings: Settings) -> ModelValues:
    return ModelValues(
        model=settings.model,
        aliases=settings.model_aliases,
        timeout_s=settings.model_timeout_s,
        attempts=settings.model_attempts,
        gemini_base_url=settings.gemini_base_url,
        scripts_dir=settings.scripts_dir or shipped_agents_dir() / "_scripts",
    )
