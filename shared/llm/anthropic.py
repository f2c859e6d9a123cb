"""Anthropic's models as a provider: usable with the extra ``anthropic`` and ``ANTHROPIC_API_KEY``."""

from collections.abc import Mapping

from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.messages_api import prices
from ekiden.shared.llm.providers import ModelValues, Provider
from ekiden.shared.llm.wire_model import DEFAULT_TIMEOUT_S, WireConnection, WireModel

__all__ = ["ANTHROPIC", "AnthropicModel"]

_ACCESS = KeyAccess("anthropic", None, "ANTHROPIC_API_KEY", package="anthropic", variables=("ANTHROPIC_BASE_URL",))


class AnthropicModel(WireModel):
    """A ``ChatModel`` of Anthropic's. The client takes a second to import: the first call does that."""

    def __init__(self, access: KeyAccess, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Use ``access``; a call that is not answered in full within ``timeout_s`` is given up."""

        def connect() -> WireConnection:
            from ekiden.shared.llm.messages_api.connection import Connection

            return Connection(access)

        super().__init__(connect, timeout_s=timeout_s)


def _make(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    return AnthropicModel(_ACCESS.with_key(env), timeout_s=values.timeout_s)


ANTHROPIC = Provider(
    name="anthropic",
    serves=("claude-",),
    make=_make,
    known=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    why_not=_ACCESS.why_not,
    account=_ACCESS.account,
    windows={"claude-": 200_000},
    prices=prices.LISTED,
    long_prompts=prices.LONG_PROMPTS,
    variant=prices.VARIANT,
    telemetry_name="anthropic",
)
