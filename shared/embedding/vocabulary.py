"""The encoder's vocabulary, kept in a form of which only what a text needs is ever looked at.

The encoder reads its 130,000 pieces of words with a loader in Python, for a second each time. What that has made is
kept in the user's cache folder, under the hash of what it was made from: the pieces and their beginnings as a sorted
array of hashes, which is mapped into memory. It is only ever a copy: where it cannot be read, is broken or cannot be
written, the loader does its work as if there were none.
"""

import hashlib
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ekiden.shared.embedding.kept_arrays import as_bytes, from_bytes
from ekiden.shared.embedding.kept_files import kept

__all__ = ["Pieces", "tokenizer_of"]

_MOST = 2
_PREFIXES, _SCORES, _PIECES, _NORMALIZER = "_prefixes", "_scores", "_pieces", "_normalizer"
"""The parts of a tokenizer that are more than a number. The pieces' texts are not kept: texts become numbers."""
_OF_NORMALIZER = ("_units", "_normalized")
_KNOWN = 65_536
"""Beginnings that are remembered."""
_HASH_BYTES = 8


class Pieces:
    """The beginnings of all pieces of words, each with its number, as a mapping of which there is only ``get``."""

    def __init__(self, hashes: Sequence[int], numbers: Sequence[int]) -> None:
        """Make one of the sorted hashes of the beginnings, and their numbers."""
        self._hashes = hashes
        self._numbers = numbers
        self.get = lru_cache(_KNOWN)(self._get)

    def _get(self, beginning: str) -> int | None:
        """Return its number, 0 for what is no whole piece; None: no piece begins with it."""
        key = int.from_bytes(_hash_of(beginning), "little")
        place = bisect_left(self._hashes, key)
        is_there = place < len(self._hashes) and self._hashes[place] == key
        return self._numbers[place] if is_there else None


def tokenizer_of(kind: Any, model: Path) -> Any:
    """Return a tokenizer of the class ``kind`` as it is made from the file ``model``."""
    return kept(
        f"vocabulary-{_key_of(kind, model)}",
        lambda: kind(str(model)),
        to_bytes=lambda made: as_bytes(_state_of(made)),
        from_bytes=lambda text: _restored(kind, from_bytes(text)),
        most=_MOST,
    )


def _key_of(kind: Any, model: Path) -> str:
    """Name what the state of a tokenizer follows from: the model, the loader's code, and the form it is kept in."""
    loader = Path(sys.modules[kind.__module__].__file__ or "")
    form = f"hashes {sys.byteorder}".encode()
    return hashlib.sha256(b"".join((model.read_bytes(), loader.read_bytes(), form))).hexdigest()[:32]


def _state_of(tokenizer: Any) -> dict[str, Any]:
    """Return a tokenizer as plain values. Raises ``ValueError`` if it is not as we know it."""
    state = dict(vars(tokenizer))
    try:
        prefixes, scores, normalizer = state.pop(_PREFIXES), state.pop(_SCORES), state.pop(_NORMALIZER)
        del state[_PIECES]
        units, replacements = (vars(normalizer)[name] for name in _OF_NORMALIZER)
    except KeyError as error:
        raise ValueError(f"another tokenizer: {error}") from error
    hashes = np.frombuffer(b"".join(map(_hash_of, prefixes)), dtype="<u8")
    order = np.argsort(hashes)
    if not np.diff(hashes[order]).all():
        raise ValueError("two pieces have one hash")
    return {
        "numbers": state,
        "hashes": hashes[order].astype(np.uint64),
        "pieces": np.fromiter(prefixes.values(), np.int32, len(prefixes))[order],
        "scores": np.array(scores, dtype=np.float32),
        "charsmap": np.frombuffer(_charsmap(units, replacements), dtype=np.uint8),
    }


def _charsmap(units: Sequence[int], replacements: bytes) -> bytes:
    """Return what a normalizer is made from: a trie, behind its size, and what its characters are replaced by."""
    return struct.pack(f"<I{len(units)}I", len(units) * 4, *units) + replacements


def _restored(kind: Any, state: Mapping[str, Any]) -> Any:
    tokenizer = kind.__new__(kind)
    normalizer = sys.modules[kind.__module__].__dict__["_Normalizer"]
    vars(tokenizer).update(
        {
            **state["numbers"],
            _PREFIXES: Pieces(memoryview(state["hashes"]), memoryview(state["pieces"])),
            _SCORES: array("f", state["scores"].tobytes()),
            _NORMALIZER: normalizer(state["charsmap"].tobytes()),
        }
    )
    return tokenizer


def _hash_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest()
