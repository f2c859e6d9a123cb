"""What was learned of a catalog, kept from one process to the next: for eight agents it takes half a second to learn.

It follows from the agents (with what was learned from requests, which is in their digests), the encoder and the code.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from ekiden.shared import embedding
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.kept_arrays import as_bytes, from_bytes
from ekiden.shared.embedding.kept_files import kept

__all__ = ["kept_model"]

_MOST = 20
_LARGEST = 64 * 2**20
"""Bytes of one that is kept."""
T = TypeVar("T")


def kept_model(
    word: str, agents: Sequence[AgentDefinition], encoder: str, kinds: Sequence[type], learn: Callable[[], T]
) -> T:
    """Return what ``learn`` learns of ``agents``.

    Args:
        word: Says what that is.
        agents: All of a catalog that can be routed to.
        encoder: The encoder with its version; empty: it has no say.
        kinds: The classes of the objects that are learned. Others are not kept.
        learn: Learns it.
    """
    named = {kind.__name__: kind for kind in kinds}
    key = hashlib.sha256("\n".join([encoder, _code(), *(agent.digest for agent in agents)]).encode())
    learned: T = kept(
        f"{word}-{key.hexdigest()[:32]}",
        learn,
        to_bytes=lambda made: _written(made, named),
        from_bytes=lambda text: from_bytes(text, named),
        most=_MOST,
    )
    return learned


@cache
def _code() -> str:
    """Name the code that learns: of this package, and of the one that has the texts' vectors and words."""
    digest = hashlib.sha256(sys.byteorder.encode())
    for folder in (Path(__file__).parent, Path(embedding.__file__ or "").parent):
        for file in sorted(folder.iterdir()):
            if file.is_file():
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _written(learned: object, kinds: Mapping[str, type]) -> bytes:
    text = as_bytes(learned, kinds)
    if len(text) > _LARGEST:
        raise ValueError("too large")
    return text
