"""The lines of a file of notes: its head, and changes, each a JSON list of what it makes of notes."""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["Change", "as_line", "generation_of", "head_line", "namespace_of", "newest_of", "read_line"]

_FORMAT = 1


class Change(NamedTuple):
    """What became of a note: its text in this version; None: it was taken away."""

    id: str
    version: int
    text: str | None


def head_line(namespace: str, newest: int) -> bytes:
    """Begin a file, which is another one than any before; ``newest``: the greatest version there was."""
    return _line({"ekiden_notes": _FORMAT, "namespace": namespace, "generation": uuid.uuid4().hex, "newest": newest})


def generation_of(head: bytes) -> str:
    """Return which file it is. Raises ``ValueError`` where it is none of ours, or of a later version."""
    return str(_head(head)["generation"])


def namespace_of(head: bytes) -> str:
    """Return whose notes are in it. Raises as ``generation_of``."""
    return str(_head(head)["namespace"])


def newest_of(head: bytes) -> int:
    """Return the greatest version there was. Raises as ``generation_of``."""
    return int(_head(head)["newest"])


def as_line(changes: Iterable[Change]) -> bytes:
    """Write changes that are made together."""
    return _line([_entry(one) for one in changes])


def read_line(line: bytes) -> Sequence[Change]:
    """Read what ``as_line`` wrote. Raises ``ValueError`` for what is none."""
    try:
        return [_change(entry) for entry in json.loads(line)]
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no change of notes: {error}") from None


def _head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("ekiden_notes") != _FORMAT:
        raise ValueError("no file of notes that this version reads")
    return head


def _entry(change: Change) -> dict[str, Any]:
    """Return a change as people can read it: the note itself, where its text is that of an object, and what follows."""
    fields: dict[str, Any] = {"id": change.id, "version": change.version}
    if change.text is None:
        return fields | {"gone": True}
    first, *more = change.text.split("\n")
    try:
        note = json.loads(first)
    except ValueError:
        note = None
    if not isinstance(note, dict) or _dumped(note) != first:
        return fields | {"text": change.text}
    return fields | {"note": note} | ({"more": more} if more else {})


def _change(entry: dict[str, Any]) -> Change:
    if entry.get("gone"):
        text = None
    elif "note" in entry:
        text = "\n".join([_dumped(entry["note"]), *entry.get("more", [])])
    else:
        text = str(entry["text"])
    return Change(str(entry["id"]), int(entry["version"]), text)


def _line(value: Any) -> bytes:
    return f"{_dumped(value)}\n".encode()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
