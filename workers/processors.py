"""Output processors: what a caller reads of a structured result, instead of its JSON. Programs have the object itself.

An agent's file names one (``output: {process: markdown}``), of ours or of a plug-in of the group ``outputs``: any
callable that takes the output, JSON, and returns a text.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ekiden.shared.errors import ToolError
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.plugins import load
from ekiden.shared.redaction import redact
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.storable import storable
from ekiden.workers.tools.threads import ToolThreads

__all__ = ["OURS", "Process", "Processors", "as_markdown", "loaded_processors"]

Process = Callable[[Any], str]
TIMEOUT_S = 10.0
MOST_AT_A_TIME = 4


def as_json(output: Any) -> str:
    """Write it with a line for each value."""
    return json.dumps(output, ensure_ascii=False, indent=2)


def as_markdown(output: Any) -> str:
    """Write it for people: a heading for each field of an object, an item for each of a list."""
    return "\n\n".join(_blocks(output, 2))


OURS: Mapping[str, Process] = {"json": as_json, "markdown": as_markdown}
"""Listed for people in ``definitions.model.OUTPUT_PROCESSORS``, too."""


class Processors:
    """Those of one worker, each run beside the event loop for a while at most: its code may be anybody's."""

    def __init__(self, brought: Mapping[str, Process] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._by_name = {**OURS, **(brought or {})}
        self._timeout_s = timeout_s
        self._threads = ToolThreads(MOST_AT_A_TIME)

    async def shape(self, name: str, output: Any) -> tuple[str, str]:
        """Return what a caller reads of ``output``, and why ``name`` did not make it: then it is the JSON."""
        if name not in self._by_name:
            problem = f"no worker here has the output processor {name!r}: {', '.join(sorted(self._by_name))} are there"
            return as_json(output), problem
        try:
            text = await self._run(self._by_name[name], output)
        except (Exception, SystemExit) as error:
            if is_interruption_of_task(error):
                raise
            problem = f"the output processor {name!r} failed: {type(error).__name__}: {redact(said_by(error))}"
            return as_json(output), problem
        return text, ""

    async def _run(self, process: Process, output: Any) -> str:
        given = json.loads(json.dumps(output))  # its own: what it does to that changes nothing
        async with asyncio.timeout(self._timeout_s), self._threads.running(partial(process, given)) as outcome:
            text = await outcome
        if not isinstance(text, str):
            raise ToolError(f"it must return a text, not {type(text).__name__}")
        return str(storable(text))


def loaded_processors(allowed: Allowed) -> tuple[Processors, tuple[str, ...]]:
    """Return the processors that the settings allow, beside ours, and what is wrong with others."""
    kind: Any = Callable
    loaded = load("outputs", allowed, kind, own=OURS)
    return Processors(loaded.made), loaded.problems


def _blocks(value: Any, level: int) -> Iterator[str]:
    match value:
        case {**fields} if fields:
            for name, inner in fields.items():
                yield f"{'#' * min(level, 6)} {name}"
                yield from _blocks(inner, level + 1)
        case [*items] if items:
            yield "\n".join(map(_item, items))
        case _:
            yield _inline(value)


def _item(value: Any) -> str:
    if not isinstance(value, dict):
        return f"- {_inline(value)}"
    lines = [f"{name}: {_inline(inner)}" for name, inner in value.items()]
    return "- " + "\n  ".join(lines)


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return ", ".join(map(_inline, value)) or "none"
    return json.dumps(value, ensure_ascii=False)
