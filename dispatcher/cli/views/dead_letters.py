"""Dead letters as programs and people read them."""

from typing import Any

from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.shared.redaction import preview
from ekiden.shared.stores.dead_letters import DeadLetter

__all__ = ["fields_of_letter", "row_of_letter"]


def fields_of_letter(letter: DeadLetter) -> dict[str, Any]:
    """Return what ``--json`` says of a dead letter."""
    return {"id": letter.id, "at_ms": letter.at_ms, "queue": letter.queue, "reason": letter.reason}


def row_of_letter(letter: DeadLetter) -> list[str]:
    """Return a dead letter as people read it."""
    return [local_time(letter.at_ms), letter.queue, letter.reason, preview(letter.text, 60)]
