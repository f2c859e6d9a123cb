"""Builds what the dispatcher runs; the only file here that picks implementations."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from dispatcher.dispatch import DispatchHandler
from dispatcher.routing.base import Router
from dispatcher.routing.llm import ROUTER_AGENT, RouterModel
from dispatcher.routing.strategies import RoutingValues, routers
from shared.definitions.catalog import Catalog, build_catalog
from shared.definitions.loader import layered, shipped_agents_dir
from shared.definitions.trusted import levels_here
from shared.llm.models import Models, ModelValues
from shared.relay.served import Served
from shared.settings import Settings
from shared.stores.opening import Stores

__all__ = ["build", "load_catalog", "strategies_of"]

log = structlog.get_logger(__name__)


async def build(settings: Settings, stores: Stores) -> Served:
    """Load the agent files, publish the catalog and return the handler of leg 0."""
    catalog = load_catalog(settings)
    texts = {definition.digest: definition.to_json() for definition in catalog.agents.values()}
    await stores.catalogs.publish(catalog.digest, catalog.manifest(), texts)
    log.info("catalog_published", catalog=catalog.digest[:12], agents=len(catalog))
    strategies = strategies_of(settings)
    handler = DispatchHandler(
        catalog,
        strategies[settings.routing_strategy],
        settings.routing_fallback,
        stores.sessions,
        strategies,
        settings.routing_default_agent,
        settings.routing_enabled,
    )
    return Served(handler)


def load_catalog(settings: Settings) -> Catalog:
    """Load every agent file in force, as far as it is trusted.

    Problems are logged with file and line, and hide no other agent.
    """
    loaded = layered(level.loaded for level in levels_here(settings))
    catalog, problems = build_catalog(loaded.definitions, loaded.sources)
    for problem in (*loaded.problems, *problems):
        report = log.error if problem.severity == "error" else log.warning
        report("agent_file", at=problem.where, problem=problem.message)
    return catalog


def strategies_of(settings: Settings) -> Mapping[str, Router]:
    """Return the routing strategies as the settings have them."""
    values = RoutingValues(
        rule_threshold=settings.routing_rule_threshold,
        semantic_threshold=settings.routing_semantic_threshold,
        top_k=settings.routing_semantic_top_k,
        model_for=_router_model(settings),
        asks_model=settings.routing_llm_model is not None,
    )
    return routers(values)


def _router_model(settings: Settings) -> Callable[[Catalog], RouterModel]:
    """Return what finds the model that routes: the settings', else the router agent's, else the default."""
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    models = Models(replace(values, attempts=1), os.environ)  # a later try would come after the router's timeout

    def model_for(catalog: Catalog) -> RouterModel:
        definition = catalog.agents.get(ROUTER_AGENT)
        choice = models.choose(settings.routing_llm_model or (definition.model if definition else None))
        return RouterModel(models.model(choice), choice.name, settings.routing_llm_timeout / 1000)

    return model_for
