"""Gemini's embedding models."""

from collections.abc import Sequence

from google.genai import types

from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.genai.failures import translated
from ekiden.shared.llm.genai.making import new_client
from ekiden.shared.llm.wire_clients import translating

__all__ = ["GeminiEmbeddings"]

_ATTEMPTS = 3


class GeminiEmbeddings:
    """Makes vectors; safe to call from several threads. The client tries again by itself."""

    def __init__(self, access: GeminiAccess, timeout_s: float) -> None:
        self._client = new_client(
            access,
            timeout=round(timeout_s * 1000),
            retry_options=types.HttpRetryOptions(attempts=_ATTEMPTS, initial_delay=0.2, max_delay=2.0),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def embed(self, model: str, texts: Sequence[str], dimension: int | None) -> list[list[float]]:
        """Return a vector for each text. Raises ``ModelError``."""
        with translating(lambda error: translated(error, model)):
            answer = self._client.models.embed_content(
                model=model,
                contents=list(texts),
                config=types.EmbedContentConfig(output_dimensionality=dimension),
            )
        return [list(one.values or ()) for one in answer.embeddings or ()]
