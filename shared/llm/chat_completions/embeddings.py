"""Embedding models of servers that speak OpenAI's protocol."""

from collections.abc import Sequence

import openai

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.chat_completions.connection import without_others
from ekiden.shared.llm.chat_completions.failures import translated
from ekiden.shared.llm.wire_clients import http_options, not_made, translating

__all__ = ["OpenAIEmbeddings"]

_RETRIES = 2


class OpenAIEmbeddings:
    """Makes vectors; safe to call from several threads. The client tries again by itself."""

    def __init__(self, access: KeyAccess, timeout_s: float) -> None:
        self._access = access
        self._headers = without_others(access)
        with translating(lambda error: not_made(access.name, error)):
            self._client = openai.OpenAI(
                api_key=access.key or "none",
                base_url=access.base_url,
                max_retries=_RETRIES,
                timeout=timeout_s,
                http_client=openai.DefaultHttpxClient(**http_options()),
            )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def embed(self, model: str, texts: Sequence[str], dimension: int | None) -> list[list[float]]:
        """Return a vector for each text. Raises ``ModelError``."""
        with translating(lambda error: translated(error, self._access, model)):
            answer = self._client.embeddings.create(
                model=self._access.bare(model),
                input=list(texts),
                dimensions=openai.omit if dimension is None else dimension,
                encoding_format="float",  # which servers speak that know no other
                extra_headers=self._headers,
            )
        try:
            return [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
        except (AttributeError, TypeError):  # the client checks nothing
            raise ModelError(f"What answers for {self._access.name} makes no embeddings: check the address") from None
