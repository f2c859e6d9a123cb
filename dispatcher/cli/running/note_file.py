"""A file of notes, one JSON object a line, as ``ekiden memory export`` writes it."""

import json
from pathlib import Path

from pydantic import ValidationError

from ekiden.dispatcher.cli.given_text import MOST_OF_LINES, given_lines
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.memory.base import MOST_CHARS, MOST_NOTES, Namespace, Note

__all__ = ["read_notes"]


def read_notes(file: Path) -> dict[Namespace, list[Note]]:
    """Return the notes of a file by namespace. Raises ``InvalidRequest`` with the line that is wrong: nothing is kept.

    ``-`` reads standard input.
    """
    found: dict[Namespace, dict[str, Note]] = {}
    for number, line in enumerate(given_lines(file, MOST_OF_LINES), 1):
        if not line.strip():
            continue
        try:
            namespace, note = _read(line)
        except (ValueError, InvalidRequest) as error:
            raise InvalidRequest(f"{str(file)!r}, line {number}: {error}. Nothing was kept") from None
        found.setdefault(namespace, {})[note.id] = note
    if over := next((one for one, notes in found.items() if len(notes) > MOST_NOTES), None):
        raise InvalidRequest(f"{str(file)!r} has more than {MOST_NOTES:,} notes of {over}, the most")
    return {namespace: list(notes.values()) for namespace, notes in found.items()}


def _read(line: str) -> tuple[Namespace, Note]:
    fields = json.loads(line)
    if not isinstance(fields, dict) or not isinstance(fields.get("namespace"), str):
        raise InvalidRequest("it is no note: an object with 'namespace', 'id' and 'content' is expected")
    namespace = Namespace.of(fields.pop("namespace"))
    try:
        note = Note.model_validate(fields)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        raise InvalidRequest(f"{'.'.join(map(str, detail['loc']))!r}: {detail['msg']}") from None
    if not note.content.strip() or len(note.content) > MOST_CHARS:
        raise InvalidRequest(f"'content' must have 1 to {MOST_CHARS:,} characters")
    return namespace, note
