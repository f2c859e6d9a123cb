"""``ekiden status --dead-letters``: what was found in queues and is no message of Ekiden's."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from dispatcher.cli.connection import connected
from dispatcher.cli.jobs import local_time
from dispatcher.cli.output import Output, glimpse
from shared.stores.dead_letters import DeadLetter
from shared.visible import say

__all__ = ["fields_of_letter", "show_dead_letters"]


def show_dead_letters(redis: str | None, data_dir: Path | None, *, clear: bool, as_json: bool) -> None:
    """Show dead letters, oldest first; ``clear``: then forget those that were shown."""
    letters = asyncio.run(_taken(redis, data_dir, clear=clear))
    if as_json:
        for letter in letters:
            raw = base64.b64encode(letter.raw).decode()
            say(json.dumps(fields_of_letter(letter) | {"raw": raw}, ensure_ascii=False))
        return
    out = Output()
    if not letters:
        out.line("No dead letters")
        return
    out.table(["WHEN", "QUEUE", "WHY", "BEGINS"], [_row(letter) for letter in letters])
    if clear:
        out.line(f"{len(letters)} forgotten")


def fields_of_letter(letter: DeadLetter) -> dict[str, Any]:
    """Return what ``--json`` says of a dead letter."""
    return {"id": letter.id, "at_ms": letter.at_ms, "queue": letter.queue, "reason": letter.reason}


async def _taken(redis: str | None, data_dir: Path | None, *, clear: bool) -> list[DeadLetter]:
    async with connected(redis, data_dir) as client:
        letters = await client.dead_letters()
        if clear:
            await client.forget_dead_letters(letters)
        return letters


def _row(letter: DeadLetter) -> list[str]:
    return [local_time(letter.at_ms), letter.queue, letter.reason, glimpse(letter.text, 60)]
