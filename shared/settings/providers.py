"""Settings of further providers of models."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.settings.values import PriceValues, checked_variables, checked_web_address, json_of

__all__ = ["OpenAIProvider", "ProviderSettings"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TAKEN = ("anthropic", "gemini", "scripted", "models", "google")
_EXAMPLE = '{"local": {"type": "openai", "base_url": "http://127.0.0.1:11434/v1", "models": ["qwen3"]}}'


def _variable(name: str) -> str:
    return checked_variables([name])[0]


class OpenAIProvider(BaseModel):
    """A server that speaks OpenAI's Chat Completions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["openai"]
    base_url: Annotated[str, AfterValidator(checked_web_address)] | None = None
    """Up to and with the version: ``http://127.0.0.1:11434/v1``; None: OpenAI's own."""
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
    """The environment variable that holds the key; None: ``OPENAI_API_KEY`` for OpenAI's own, none for another."""
    models: list[str] = Field(default_factory=list)
    """Names to list; others can be used as well. The first is what agents without a model get where nothing is nearer.
    """
    context_window: int | None = Field(None, ge=1_024)
    """How many tokens its models read at once; None: 32,768, which even small ones do."""
    prices: dict[str, PriceValues] = Field(default_factory=dict)
    """Beginnings of its models' names -> US dollars for a million tokens: input, output."""


def _as_object(value: Any) -> Any:
    return json_of(value, f"an object such as {_EXAMPLE}") if isinstance(value, str) else value


def _named(providers: dict[str, OpenAIProvider]) -> dict[str, OpenAIProvider]:
    for name in providers:
        if not _NAME.fullmatch(name) or name in _TAKEN:
            why = "is taken" if name in _TAKEN else "must be of a-z, 0-9, _ and -, and begin with a letter"
            raise ValueError(f"the name {name!r} {why}: its models are called {name}/MODEL")
    return providers


class ProviderSettings(BaseModel):
    """The part of the settings that is about providers of models."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one

    providers: Annotated[dict[str, OpenAIProvider], BeforeValidator(_as_object), AfterValidator(_named)] = Field(
        default_factory=dict
    )
    """Further providers, by the name that stands before their models': ``local`` has ``local/qwen3``."""
