"""Which models an agent file asks for: ``model: NAME``, or ``models`` with those that are asked where the first fails.

``models`` is a list of names, the first choice first, or an object of such a list and of the causes to go on for:
``{use: [gemini-2.5-pro, local/qwen3], on: [unavailable, quota, refused]}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.errors import DefinitionError
from ekiden.shared.fallback_causes import FallbackCause

__all__ = ["MODELS", "model_name", "take_models"]

MODELS = ("model", "models")
"""The fields that this is in."""
_CAUSES: tuple[str, ...] = get_args(FallbackCause)
_INHERIT = "inherit"
_EXAMPLE = "[gemini-2.5-pro, local/qwen3]"


def model_name(value: Any) -> str | None:
    """Return the model of a name; None: that of the settings. Raises ``DefinitionError``."""
    if not isinstance(value, str):
        raise DefinitionError(f"must be the name of a model or 'inherit', not {value!r}")
    name = value.strip()
    return None if name.casefold() in ("", _INHERIT) else name


def take_models(raw: dict[str, Any]) -> dict[str, Any]:
    """Take the models out of the front matter; return them as fields of the definition.

    Raises ``AgentFileError``: a value cannot be meant.
    """
    said = {key: raw.pop(key) for key in MODELS if key in raw}
    if len(said) > 1:
        raise AgentFileError("'model' and 'models' both name models: leave one of them out", field="models")
    for key, value in said.items():
        try:
            return _read(value)
        except DefinitionError as error:
            raise AgentFileError(f"{key!r}: {error}", field=key) from None
    return {}


def _read(value: Any) -> dict[str, Any]:
    names, causes = value, None
    if isinstance(value, Mapping):
        if unknown := sorted(value.keys() - {"use", "on"}):
            raise DefinitionError(f"it has {unknown[0]!r}, which is not known: there are 'use' and 'on'")
        names, causes = value.get("use"), value.get("on")
    first, *others = map(model_name, _listed(names))
    found: dict[str, Any] = {"model": first, "fallbacks": tuple(name or _INHERIT for name in others)}
    if causes is not None:
        found["fallback_on"] = _causes(causes)
    return found


def _listed(names: Any) -> Sequence[Any]:
    """Return the names; one of them need not be a list."""
    listed = names if isinstance(names, list) else [names]
    if not listed or names is None:
        raise DefinitionError(f"it names no model: write a list such as {_EXAMPLE}")
    texts = [str(name).strip().casefold() for name in listed]
    if twice := next((name for name in texts if texts.count(name) > 1), None):
        raise DefinitionError(f"it names {twice!r} twice: no model is asked a second time")
    return listed


def _causes(value: Any) -> tuple[str, ...]:
    causes = value if isinstance(value, list) else [value]
    if unknown := next((one for one in causes if one not in _CAUSES), None):
        raise DefinitionError(f"it has 'on: {unknown}': there are {', '.join(_CAUSES)}")
    if not causes:
        raise DefinitionError("it has an empty 'on', so that no other model would ever be asked: name a cause")
    return tuple(dict.fromkeys(causes))
