"""Which agents the scripted stand-in can play where no model answers: workers announce it, requests go to those."""

import json
from collections.abc import Iterable, Mapping

from ekiden.shared.errors import EkidenError
from ekiden.shared.llm.models import SCRIPTED, ModelValues, providers

__all__ = ["EVERYBODY", "announcement", "has_model", "played_by"]

EVERYBODY = "*"
"""The script that answers for every agent."""
_PLAYS = "plays"


def has_model(env: Mapping[str, str]) -> bool:
    """Tell whether any provider but the stand-in is usable here. Asks no server."""
    return any(not one.lacks(env) for one in providers() if one is not SCRIPTED)


def announcement(values: ModelValues, env: Mapping[str, str]) -> dict[str, str]:
    """Return what a worker says of its stand-in; nothing where a model answers, or its scripts cannot be read."""
    from ekiden.shared.llm.scripted import ScriptedModel

    if has_model(env):
        return {}
    try:
        plays = ScriptedModel.from_folders(*values.script_folders).plays
    except (EkidenError, OSError, UnicodeDecodeError):  # who is played says so
        return {}
    return {_PLAYS: json.dumps(sorted(plays), ensure_ascii=False)}


def played_by(announced: Iterable[Mapping[str, str]]) -> frozenset[str] | None:
    """Return the agents that some worker's stand-in plays; None: a model answers, or nobody says anything else."""
    said = [worker.get(_PLAYS) for worker in announced]
    plays = frozenset(name for one in said if one is not None for name in json.loads(one))
    return None if not said or None in said or EVERYBODY in plays else plays
