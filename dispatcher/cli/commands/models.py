"""``ekiden models``: which models are usable here, and why the others are not."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from ekiden.dispatcher.cli.connection import server_address
from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.circuits import told_for_programs, told_of
from ekiden.dispatcher.cli.views.model_limits import told_of_limit
from ekiden.shared.errors import EkidenError
from ekiden.shared.llm.models import SCRIPTED, ModelValues, default_models, learn_providers, usable_models
from ekiden.shared.model_limits import limits_of, unknown_in
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say_json

if TYPE_CHECKING:
    from ekiden.shared.stores.circuits import CircuitView
    from ekiden.shared.stores.model_limits import LimitState, ModelLimit

__all__ = ["models"]


def models(as_json: AsJson = False) -> None:
    """Show the models that agents can use here, and why the others cannot be used."""
    settings = load_settings()
    for problem in (*learn_providers(settings), *unknown_in(settings.model_limits)):
        note(f"ekiden: {problem}")
    found = usable_models(os.environ)
    output = Output()
    if not as_json:  # also where the default, which comes last, cannot be had
        rows = [(one.name, one.provider, "yes" if one.usable else "no", one.why_not) for one in found]
        output.table(("model", "provider", "usable", "why not"), rows)
    default, *others = default_models(ModelValues.of(settings), os.environ)
    limits = {name: limit for name, limit in limits_of(settings.model_limits, os.environ).items() if limit is not None}
    circuits, states = _on_server(limits.values())
    if as_json:
        failing = {one.model: one for one in circuits}
        for one in found:
            aliases = [alias for alias, meant in settings.model_aliases.items() if one.name in _listed(meant)]
            said = settings.model_limits.get(one.name) or settings.model_limits.get(f"{one.provider}/{one.name}")
            more = {
                "default": one.name == default.name,
                "aliases": aliases,
                "failed": told_for_programs(failing.get(one.name)),
                "limit": said and said.model_dump(exclude_none=True),
            }
            say_json({**asdict(one), **more})
        return
    stand_in = " (a stand-in that plays a script, not a model)" if default.provider is SCRIPTED else ""
    output.line(f"default: {', else '.join(one.name for one in (default, *others))}{stand_in}")
    for alias, model in settings.model_aliases.items():
        output.line(f"alias: {alias} = {', else '.join(_listed(model))}")
    for name, limit in limits.items():
        output.line(f"limit: {name}: {told_of_limit(limit, states.get(limit.key))}")
    for circuit in circuits:
        output.line(f"{circuit.model} {told_of(circuit)}", "yellow")


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _on_server(limits: "Iterable[ModelLimit]") -> "tuple[list[CircuitView], dict[str, LimitState]]":
    """Return which models have failed lately, and what of limits is used, as the server here has it; or nothing."""
    try:
        with server_address(None, None, may_start=False) as url:
            return asyncio.run(_read(url, limits))
    except EkidenError:  # which other commands tell
        return [], {}


async def _read(url: str, limits: "Iterable[ModelLimit]") -> "tuple[list[CircuitView], dict[str, LimitState]]":
    from ekiden.shared.stores.opening import open_stores

    stores = open_stores(url, retries=0)
    try:
        states = {limit.key: await stores.model_limits.state(limit) for limit in limits}
        return await stores.circuits.all(), states
    finally:
        await stores.close()
