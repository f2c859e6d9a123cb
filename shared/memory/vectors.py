"""Vectors made beside the event loop, and what becomes of an embedder that does not answer."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.errors import ConfigurationError, ModelError
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.memory.base import Embedder

__all__ = ["NoVectors", "VectorMaker"]

_SILENT_S = 30.0
"""How long an embedder that has not answered is not asked for single texts."""

NoVectors = (ModelError, ConfigurationError)
"""What embedders raise that cannot make vectors."""

log = LateLogger(__name__)


class VectorMaker:
    """Asks an embedder.

    Attributes:
        trouble: Why the last vectors were not made, in words; empty: they were.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.trouble = ""
        self.name = embedder.name
        self._embedder = embedder
        self._silent_until = 0.0

    async def one(self, text: str) -> Vectors | None:
        """Return a text's vector; None where the embedder does not answer, and for a while behind that."""
        if time.monotonic() < self._silent_until:
            return None
        with suppress(*NoVectors):
            vector: Vectors = (await self.many([text]))[0]
            return vector
        return None

    async def many(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, a row each. Raises one of ``NoVectors``."""
        try:
            vectors = await asyncio.to_thread(self._embedder.encode, texts)
        except NoVectors as error:
            self._silent_until = time.monotonic() + _SILENT_S
            if not self.trouble:
                log.warning("memory_by_words", encoder=self.name, error=str(error))
            self.trouble = f"{self.name} makes no vectors: {error}"
            raise
        self.trouble = ""
        return vectors
