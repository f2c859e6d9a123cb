"""Builds the routing as the settings have it: for dispatchers, and for commands that only look whose a request is."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ekiden.dispatcher.agent_files import read_agent_files, report
from ekiden.dispatcher.routing.llm import ROUTER_AGENT, RouterModel
from ekiden.dispatcher.routing.overrides import no_strategy
from ekiden.dispatcher.routing.strategies import RoutingValues, Strategies, routers
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import SCRIPTED, ModelValues, choose, learn_providers, names_model
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.prices import Prices
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.files import project_file
from ekiden.shared.settings.model import Settings, key_of, origin_of
from ekiden.shared.trust.grants import stands_by
from ekiden.shared.trust.notices import tell

__all__ = ["load_catalog", "strategies_of", "strategy_in_force"]


def load_catalog(settings: Settings) -> Catalog:
    """Load every agent file in force, as far as it is trusted.

    Problems are logged with file and line, and hide no other agent.
    """
    files = read_agent_files(settings)
    report(files.problems)
    return files.catalog


def strategies_of(settings: Settings, max_wait_s: float | None = None) -> Strategies:
    """Return the routing strategies as the settings have them; see ``RoutingValues`` for ``max_wait_s``.

    Their ``problems`` are also those of the providers that models of plug-ins come from.
    """
    values = RoutingValues(
        rule_threshold=settings.routing_rule_threshold,
        semantic_threshold=settings.routing_semantic_threshold,
        top_k=settings.routing_semantic_top_k,
        model_for=_router_model(settings) if settings.routing_llm_enabled else None,
        max_wait_s=max_wait_s,
    )
    strategies = routers(values)
    strategies.problems += learn_providers(settings)
    strategies.add(settings.allowed("routers"))
    return strategies


def strategy_in_force(settings: Settings, strategies: Strategies) -> str:
    """Return the name of the strategy that the settings choose.

    Raises:
        ConfigurationError: there is no such router; unless a folder says so that nobody trusts, which stops nobody.
    """
    name = settings.routing_strategy
    if name in strategies:
        return name
    field, project = "routing_strategy", project_of(Path.cwd())
    if (where := origin_of(field)) != str(project_file()) or stands_by(project):
        raise ConfigurationError(f"setting {key_of(field)!r} ({where}): {no_strategy(name, strategies)}")
    tell(project, f"ignored settings {key_of(field)}, whose values are wrong")
    return str(Settings.model_fields[field].default)


@dataclass(frozen=True)
class _StandIn:
    """The stand-in, whose scripts are read when it is asked: hardly ever."""

    make: Callable[[], ChatModel]

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """See ``ChatModel``."""
        return await self.make().reply(request, on_delta)


def _router_model(settings: Settings) -> Callable[[Catalog], RouterModel]:
    """Return what finds the model that routes: the settings', else the router agent's, else a fast one.

    That is of the provider which has the default model: what users write goes to no other provider unasked.
    """
    values = ModelValues.of(settings, shipped_agents_dir() / "_scripts")
    models = Models(replace(values, attempts=1), os.environ)  # a later try would come after the router's timeout

    def model_for(catalog: Catalog) -> RouterModel:
        definition = catalog.agents.get(ROUTER_AGENT)
        named = settings.routing_llm_model or (definition.model if definition else None)
        choice = choose(named, values, os.environ)  # silent: most have no key, and need none
        is_stand_in = choice.provider is SCRIPTED and named != SCRIPTED.name
        return RouterModel(
            _StandIn(lambda: models.model(choice)) if is_stand_in else models.model(choice),
            choice.name if names_model(named) else choice.provider.fast or choice.name,
            settings.routing_llm_timeout / 1000,
            prepare=choice.provider.prepare,
            prices=Prices(settings.prices),
            is_stand_in=is_stand_in,
            note=choice.note if settings.routing_llm_model else "",
        )

    return model_for
