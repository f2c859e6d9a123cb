"""Which limit holds for calls of a model."""

import hashlib
from collections.abc import Mapping

from ekiden.shared.llm.models import provider_of
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores.model_limits import ModelLimit

__all__ = ["in_words", "limit_for", "limits_of", "unknown_in"]


_PARTS = {"rpm": ("call", "a minute"), "tpm": ("token", "a minute"), "concurrent": ("call", "at a time")}


def in_words(most: int, part: str) -> str:
    """Say one part of a limit: ``1 call a minute``."""
    noun, when = _PARTS[part]
    return f"{most:,} {noun if most == 1 else f'{noun}s'} {when}"


def limit_for(model: str, said: Mapping[str, ModelLimitValues], env: Mapping[str, str]) -> ModelLimit | None:
    """Return the limit of a model, which all share who call it with the same key; None: there is none."""
    if (provider := provider_of(model)) is None:
        return None
    values = said.get(model) or said.get(f"{provider.name}/{model}")
    if values is None:
        return None
    account = hashlib.sha256(f"{provider.name} {provider.account(env)}".encode(errors="surrogateescape")).hexdigest()
    return ModelLimit(f"{account[:12]}:{model}", model, values.rpm, values.tpm, values.concurrent)


def limits_of(said: Mapping[str, ModelLimitValues], env: Mapping[str, str]) -> dict[str, ModelLimit | None]:
    """Return the limits of the settings by the names that they have there; None: no provider has such a model."""
    found = {}
    for name in said:
        provider, _, bare = name.partition("/")
        limit = limit_for(name, said, env)
        if limit is None and (other := provider_of(bare)) is not None and other.name == provider:
            limit = limit_for(bare, said, env)
        found[name] = limit
    return found


def unknown_in(said: Mapping[str, ModelLimitValues]) -> list[str]:
    """Say of each limit that no provider here has its model: it limits nothing."""
    return [
        f"limits.models: no provider here has a model {name!r}, so that nothing is limited"
        for name, limit in limits_of(said, {}).items()
        if limit is None
    ]
