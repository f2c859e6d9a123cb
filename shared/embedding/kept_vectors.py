"""The vectors of what a catalog is made of, kept from one process to the next.

Some hundred general requests and what agents' files say take a second to encode, in each command and each dispatcher
that starts. They follow from the texts and the encoder alone, so they are kept in the user's cache folder.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.kept_files import kept

__all__ = ["MANY", "kept_vectors"]

MANY = 50
"""Fewer texts, such as a request, are encoded as fast as they are read."""
_MOST = 20
"""Files: of the last catalogs, and of other projects'."""


def kept_vectors(
    texts: Sequence[str], encoder: str, encode: Callable[[Sequence[str]], NDArray[np.float32]], *, width: int
) -> NDArray[np.float32]:
    """Return what ``encode`` makes of ``texts``, a row each; ``encoder`` names all that it follows from beside them.

    ``width``: how many numbers a row has.
    """
    if len(texts) < MANY:
        return encode(texts)
    return kept(
        f"vectors-{_key_of(texts, encoder)}",
        lambda: encode(texts),
        to_bytes=lambda vectors: vectors.tobytes(),
        from_bytes=lambda text: _read(text, (len(texts), width)),
        most=_MOST,
    )


def _read(text: memoryview, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return the vectors. Raises ``ValueError`` where they are others than an encoder makes."""
    vectors = np.frombuffer(text, dtype=np.float32).reshape(shape)
    if not np.isfinite(vectors).all():
        raise ValueError("not numbers")
    return vectors


def _key_of(texts: Sequence[str], encoder: str) -> str:
    digest = hashlib.sha256(encoder.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:32]
