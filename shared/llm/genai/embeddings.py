"""Gemini's embedding models."""

from collections.abc import Sequence

from google.genai import types

from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.genai.failures import translated
from ekiden.shared.llm.genai.making import new_client

__all__ = ["GeminiEmbeddings"]

_ATTEMPTS = 3


class GeminiEmbeddings:
    """Makes vectors; safe to call from several threads. The client tries again by itself."""

    def __init__(self, access: GeminiAccess, timeout_s: float) -> None:
        options = types.HttpOptions(
            base_url=access.base_url,
            timeout=round(timeout_s * 1000),
            retry_options=types.HttpRetryOptions(attempts=_ATTEMPTS, initial_delay=0.2, max_delay=2.0),
        )
        self._client = new_client(access, options)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def embed(self, model: str, texts: Sequence[str], dimension: int | None) -> list[list[float]]:
        """Return a vector for each text. Raises ``ModelError``."""
        try:
            answer = self._client.models.embed_content(
                model=model,
                contents=list(texts),
                config=types.EmbedContentConfig(output_dimensionality=dimension),
            )
        except Exception as error:
            if (failure := translated(error, model)) is None:
                raise
            raise failure from error
        return [list(one.values or ()) for one in answer.embeddings or ()]
