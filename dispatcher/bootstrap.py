"""Builds what the dispatcher runs; the only file here that picks implementations."""

from pathlib import Path

import structlog

from dispatcher.dispatch import DispatchHandler
from dispatcher.routing.rules import RuleRouter
from shared.definitions.catalog import Catalog, build_catalog
from shared.definitions.loader import load_all
from shared.relay.served import Served
from shared.settings import Settings
from shared.stores.opening import Stores

__all__ = ["build", "load_catalog"]

log = structlog.get_logger(__name__)


async def build(settings: Settings, stores: Stores) -> Served:
    """Load the agent files, publish the catalog and return the handler of leg 0."""
    catalog = load_catalog(settings)
    texts = {definition.digest: definition.to_json() for definition in catalog.agents.values()}
    await stores.catalogs.publish(catalog.digest, catalog.manifest(), texts)
    log.info("catalog_published", catalog=catalog.digest[:12], agents=len(catalog))
    return Served(DispatchHandler(catalog, RuleRouter(), settings.routing_fallback))


def load_catalog(settings: Settings) -> Catalog:
    """Load every agent file in force; problems are logged with file and line, and hide no other agent."""
    loaded = load_all(Path.cwd(), settings.agents_dir, Path.home())
    catalog, problems = build_catalog(loaded.definitions, loaded.sources)
    for problem in (*loaded.problems, *problems):
        report = log.error if problem.severity == "error" else log.warning
        report("agent_file", at=problem.where, problem=problem.message)
    return catalog
