"""The encoder's weights, kept in a form that is only mapped into memory, and shared by all processes of a user.

They come compressed, and to unpack their 80 MB takes more than half a second, in each command that routes and in each
dispatcher. What that has made is kept in the user's cache folder. It is only ever a copy, as the vocabulary's is.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ekiden.shared.embedding.kept_arrays import as_bytes, from_bytes
from ekiden.shared.embedding.kept_files import kept

__all__ = ["with_weights"]

_MOST = 2
"""Files, of 80 MB each: of this version of the encoder, and perhaps of another environment's."""


def with_weights(
    make: Callable[[], Any], kind: Any, weights: Path, own: Mapping[str, Any], try_out: Callable[[Any], object] = id
) -> Any:
    """Return the object that ``make`` makes, without making it where what it holds is kept.

    Args:
        make: Makes it from the file ``weights``.
        kind: Its class.
        weights: The file.
        own: Its attributes that do not follow from that file.
        try_out: Raises an error for an object whose weights are not its own: they are read from the file again.
    """
    return kept(
        f"weights-{_key_of(kind, weights)}",
        make,
        to_bytes=lambda made: as_bytes({name: value for name, value in vars(made).items() if name not in own}),
        from_bytes=lambda text: _restored(kind, text, own, try_out),
        most=_MOST,
    )


def _key_of(kind: Any, weights: Path) -> str:
    """Name what they follow from: the code that reads the file, and the file, by size and time: hashing takes long."""
    loader, about = Path(sys.modules[kind.__module__].__file__ or ""), weights.stat()
    form = f"arrays {sys.byteorder} {about.st_size} {about.st_mtime_ns}"
    return hashlib.sha256(loader.read_bytes() + form.encode()).hexdigest()[:32]


def _restored(kind: Any, text: memoryview, own: Mapping[str, Any], try_out: Callable[[Any], object]) -> Any:
    made = kind.__new__(kind)
    vars(made).update(from_bytes(text), **own)
    try_out(made)
    return made
