"""``ekiden models``: which models are usable here, and why the others are not."""

import json
import os
from dataclasses import asdict

from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.llm.models import ModelValues, default_model, usable_models
from ekiden.shared.settings import load_settings
from ekiden.shared.terminal_text import say

__all__ = ["models"]


def models(as_json: AsJson = False) -> None:
    """Show the models that agents can use here, and why the others cannot be used."""
    settings = load_settings()
    found = usable_models(os.environ)
    default = default_model(ModelValues.of(settings), os.environ)
    if as_json:
        say(json.dumps({"default": default.name, "models": [asdict(model) for model in found]}))
        return
    output = Output()
    rows = [(one.name, one.adapter, "yes" if one.usable else "no", one.why_not) for one in found]
    output.table(("model", "provider", "usable", "why not"), rows)
    note = " (a stand-in that plays a script, not a model)" if default.name == "scripted" else ""
    output.line(f"default: {default.name}{note}")
    for alias, model in settings.model_aliases.items():
        output.line(f"alias: {alias} = {model}")
