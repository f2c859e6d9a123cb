"""The encoder's vocabulary, kept in a form that loads at once.

The encoder reads its 130,000 pieces of words with a loader in Python, for a second each time. What that has made is
kept in the user's cache folder, under the hash of what it was made from and behind the hash of itself. It is only ever
a copy: where it cannot be read, is broken or cannot be written, the loader does its work as if there were none.
"""

import hashlib
import marshal
import sys
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

from ekiden.dispatcher.routing.kept_files import kept_file, read_kept, write_kept

__all__ = ["tokenizer_of"]

_NORMALIZER = "_normalizer"
"""The one part of a tokenizer that is an object itself."""


def tokenizer_of(kind: Any, model: Path) -> Any:
    """Return a tokenizer of the class ``kind`` as it is made from the file ``model``."""
    try:
        path = kept_file(f"vocabulary-{_key_of(kind, model)}")
    except OSError:
        return kind(str(model))
    with suppress(OSError, ValueError):
        return _restored(kind, marshal.loads(read_kept(path)))  # noqa: S302 - as we wrote it: it is behind its hash
    made = kind(str(model))
    with suppress(OSError, ValueError):
        write_kept(path, marshal.dumps(_state_of(made)))
    return made


def _key_of(kind: Any, model: Path) -> str:
    """Name what the state of a tokenizer follows from: the model, the loader's code, and the form it is kept in."""
    loader = Path(sys.modules[kind.__module__].__file__ or "")
    form = f"{sys.implementation.cache_tag} {marshal.version}".encode()
    return hashlib.sha256(b"".join((model.read_bytes(), loader.read_bytes(), form))).hexdigest()[:32]


def _state_of(tokenizer: Any) -> dict[str, Any]:
    """Return a tokenizer as plain values. Raises ``ValueError`` (by marshal) if one of them is not."""
    state = {name: _plain(value) for name, value in vars(tokenizer).items()}
    return {**state, _NORMALIZER: vars(getattr(tokenizer, _NORMALIZER))}


def _plain(value: Any) -> Any:
    return (array.__name__, value.typecode, value.tobytes()) if isinstance(value, array) else value


def _restored(kind: Any, state: dict[str, Any]) -> Any:
    tokenizer = kind.__new__(kind)
    part = sys.modules[kind.__module__].__dict__["_Normalizer"]
    normalizer = part.__new__(part)
    vars(normalizer).update(state.pop(_NORMALIZER))
    vars(tokenizer).update({name: _unplain(value) for name, value in state.items()}, **{_NORMALIZER: normalizer})
    return tokenizer


def _unplain(value: Any) -> Any:
    match value:
        case (array.__name__, str(typecode), bytes(items)):
            return array(typecode, items)
        case _:
            return value
