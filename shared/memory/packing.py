"""A note as text: its JSON, and a line for each encoder that has made a vector of it: whose it is, and the vector."""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.memory.base import Note

__all__ = ["Unpacked", "digest_of", "packed", "unpacked"]

_MOST_ENCODERS = 3


class Unpacked(NamedTuple):
    """A note, its vector where it is the right encoder's, and the lines of others'."""

    note: Note
    vector: Vectors | None
    others: tuple[str, ...] = ()


@lru_cache
def digest_of(encoder: str) -> str:
    """Return what a vector is bound to: 12 hexadecimal digits of its encoder's name."""
    return hashlib.sha256(encoder.encode()).hexdigest()[:12]


def packed(note: Note, vector: Vectors | None, encoder: str, others: Sequence[str] = ()) -> str:
    """Write a note; ``others``: lines of other encoders, which agents that share notes may have, the last ones first.

    Half precision costs a cosine less than a thousandth, and half of the room.
    """
    own = []
    if vector is not None:
        own = [f"{digest_of(encoder)} {base64.b64encode(vector.astype('<f2').tobytes()).decode()}"]
    return "\n".join([note.model_dump_json(), *[*own, *others][:_MOST_ENCODERS]])


def unpacked(text: str, encoder: str) -> Unpacked:
    """Read what ``packed`` wrote. Raises ``ValueError`` for what is none."""
    json, *lines = text.split("\n")
    own = f"{digest_of(encoder)} "
    note, others = Note.model_validate_json(json), tuple(line for line in lines if not line.startswith(own))
    code = next((line.removeprefix(own) for line in lines if line.startswith(own)), None)
    if code is None:
        return Unpacked(note, None, others)
    return Unpacked(note, np.frombuffer(base64.b64decode(code), dtype="<f2").astype(np.float32), others)
