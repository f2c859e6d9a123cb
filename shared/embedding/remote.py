"""Texts as vectors of meaning by a provider's model, asked over the network."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ekiden.shared.embedding.encoder import Vectors, encodable
from ekiden.shared.errors import ModelError

__all__ = ["EmbeddingConnection", "RemoteEmbedder"]

_AT_ONCE = 64
"""Texts of one request: fewer than any provider takes."""


class EmbeddingConnection(Protocol):
    """One client of a provider. Safe to call from several threads."""

    def embed(self, model: str, texts: Sequence[str], dimension: int | None) -> list[list[float]]:
        """Return a vector for each text, in their order. Raises ``ModelError``."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RemoteEmbedder:
    """An ``Embedder``. The client takes a second to import and is made by the first call."""

    def __init__(self, model: str, dimension: int | None, connect: Callable[[], EmbeddingConnection]) -> None:
        """Ask ``model`` for vectors of ``dimension`` numbers; None: as many as it gives by itself."""
        self._model = model
        self._dimension = dimension
        self._connect = connect
        self._connection: EmbeddingConnection | None = None
        self._opening = threading.Lock()

    @property
    def name(self) -> str:
        """The model, with how many numbers it was asked for."""
        return self._model if self._dimension is None else f"{self._model} {self._dimension}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See ``Embedder``. Raises ``ModelError``, and ``MissingModel`` where the provider cannot be used here."""
        read = [encodable(text) for text in texts]
        found = [
            vector for first in range(0, len(read), _AT_ONCE) for vector in self._asked(read[first : first + _AT_ONCE])
        ]
        try:
            vectors = np.array(found, dtype=np.float32).reshape(len(texts), -1)
        except ValueError:
            raise ModelError(f"{self._model} gives vectors of different lengths") from None
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
        if self._dimension not in (None, vectors.shape[1]):
            given = f"{vectors.shape[1]} numbers, not {self._dimension}"
            raise ModelError(f"{self._model} gives vectors of {given}: leave 'dimension' out")
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise ModelError(f"{self._model} gives vectors that are none")
        return np.divide(vectors, lengths)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._opening:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _asked(self, texts: Sequence[str]) -> list[list[float]]:
        with self._opening:
            connection = self._connection = self._connection or self._connect()
        vectors = connection.embed(self._model, texts, self._dimension)
        if len(vectors) != len(texts):
            raise ModelError(f"{self._model} gives {len(vectors)} vectors for {len(texts)} texts: it cannot be used")
        return vectors
