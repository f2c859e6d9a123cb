"""The vectors of what a catalog is made of, kept from one process to the next.

Some hundred general requests and what agents' files say take a second to encode, in each command and each dispatcher
that starts. They follow from the texts and the encoder alone, so they are kept in the user's cache folder.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.kept_files import kept_file, read_kept, write_kept

__all__ = ["MANY", "kept_vectors"]

MANY = 50
"""Fewer texts, such as a request, are encoded as fast as they are read."""
_MOST = 20
"""Files: a catalog that changes, or another project's, takes the place of the one that was used the longest ago."""
_PREFIX = "vectors-"


def kept_vectors(
    texts: Sequence[str], encoder: str, encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return what ``encode`` makes of ``texts``, a row each; ``encoder`` names all that it follows from beside them."""
    if len(texts) < MANY:
        return encode(texts)
    try:
        path = kept_file(_PREFIX + _key_of(texts, encoder))
    except OSError:
        return encode(texts)
    with suppress(OSError, ValueError):
        vectors = np.frombuffer(read_kept(path), dtype=np.float32).reshape(len(texts), -1)
        os.utime(path)
        return vectors
    vectors = encode(texts)
    with suppress(OSError):
        write_kept(path, vectors.tobytes())
        _clear(path.parent)
    return vectors


def _key_of(texts: Sequence[str], encoder: str) -> str:
    digest = hashlib.sha256(encoder.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:32]


def _clear(folder: Path) -> None:
    """Take away the files beyond ``_MOST`` that nobody has used for the longest."""
    used = sorted(folder.glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in used[_MOST:]:
        path.unlink(missing_ok=True)
