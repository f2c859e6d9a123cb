"""Servers of OpenAI's Chat Completions as providers: OpenAI, Azure, Ollama, vLLM, llama.cpp, DeepSeek.

Each stands in the settings under a name of its own (``providers``), and its models are ``NAME/MODEL``.
"""

from collections.abc import Mapping

from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.providers import ModelValues, Provider
from ekiden.shared.llm.wire_model import DEFAULT_TIMEOUT_S, WireConnection, WireModel
from ekiden.shared.settings.providers import OpenAIProvider

__all__ = ["OpenAIModel", "provider_at"]

_OWN_KEY = "OPENAI_API_KEY"
_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")


class OpenAIModel(WireModel):
    """A ``ChatModel`` of one such server. The client takes a second to import: the first call does that."""

    def __init__(self, access: KeyAccess, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Use ``access``; a call that is not answered in full within ``timeout_s`` is given up."""

        def connect() -> WireConnection:
            from ekiden.shared.llm.chat_completions.connection import Connection

            return Connection(access)

        super().__init__(connect, timeout_s=timeout_s, takes_schema=True)


def provider_at(name: str, said: OpenAIProvider) -> Provider:
    """Return the provider that the settings describe under ``name``."""
    own_key = _OWN_KEY if said.base_url is None else None
    access = KeyAccess(name, said.base_url, said.api_key_env or own_key, variables=_VARIABLES)

    def make(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
        return OpenAIModel(access.with_key(env), timeout_s=values.timeout_s)

    prefix = f"{name}/"
    return Provider(
        name=name,
        serves=(prefix,),
        make=make,
        known=tuple(prefix + model for model in said.models),
        why_not=access.why_not,
        account=access.account,
        windows={prefix: said.context_window} if said.context_window else {},
        prices={prefix + model: price for model, price in said.prices.items()},
        telemetry_name="openai" if said.base_url is None else name,
    )
