"""``ekiden status --dead-letters``: what was found in queues and is no message of Ekiden's."""

import asyncio
import base64
import json
from pathlib import Path

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.dead_letters import fields_of_letter, row_of_letter
from ekiden.shared.stores.dead_letters import DeadLetter
from ekiden.shared.terminal_text import say

__all__ = ["show_dead_letters"]


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
    out.table(["WHEN", "QUEUE", "WHY", "BEGINS"], [row_of_letter(letter) for letter in letters])
    if clear:
        out.line(f"{len(letters)} forgotten")


async def _taken(redis: str | None, data_dir: Path | None, *, clear: bool) -> list[DeadLetter]:
    async with connected(redis, data_dir) as client:
        letters = await client.dead_letters()
        if clear:
            await client.forget_dead_letters(letters)
        return letters
