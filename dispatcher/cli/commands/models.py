"""``ekiden models``: which models are usable here, and why the others are not."""

import os
from dataclasses import asdict

from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.llm.models import SCRIPTED, ModelValues, default_model, learn_providers, usable_models
from ekiden.shared.settings import load_settings
from ekiden.shared.terminal_text import note, say_json

__all__ = ["models"]


def models(as_json: AsJson = False) -> None:
    """Show the models that agents can use here, and why the others cannot be used."""
    settings = load_settings()
    for problem in learn_providers(settings):
        note(f"ekiden: {problem}")
    found = usable_models(os.environ)
    output = Output()
    if not as_json:  # also where the default, which comes last, cannot be had
        rows = [(one.name, one.provider, "yes" if one.usable else "no", one.why_not) for one in found]
        output.table(("model", "provider", "usable", "why not"), rows)
    default = default_model(ModelValues.of(settings), os.environ)
    if as_json:
        for one in found:
            aliases = [alias for alias, meant in settings.model_aliases.items() if meant == one.name]
            say_json({**asdict(one), "default": one.name == default.name, "aliases": aliases})
        return
    stand_in = " (a stand-in that plays a script, not a model)" if default.provider is SCRIPTED else ""
    output.line(f"default: {default.name}{stand_in}")
    for alias, model in settings.model_aliases.items():
        output.line(f"alias: {alias} = {model}")
