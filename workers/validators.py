"""Validators of plug-ins: what guardrails ask besides those of ours. Their code may be anybody's.

A plug-in of the group ``guardrails`` is any callable that takes the value: a text, or JSON where it is structured.
None, True, an empty text or list: it passes. False, a text or a list of texts say what is wrong, and so does
``{"valid": False, "error": ...}``. What raises, hangs or returns something else has not let it pass.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ekiden.shared.definitions.guardrails import BUILT_IN
from ekiden.shared.errors import ToolError
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.plugins import load
from ekiden.shared.redaction import redact
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.storable import storable
from ekiden.shared.terminal_text import one_line
from ekiden.workers.tools.threads import ToolThreads

__all__ = ["Said", "Validate", "Validators", "loaded_validators"]

Validate = Callable[[Any], Any]
TIMEOUT_S = 10.0
MOST_AT_A_TIME = 4
_MOST_SAID = 10
_LONGEST = 300


class Said(NamedTuple):
    """What a validator says of a value."""

    errors: list[str]
    """What is wrong; empty: it passes."""
    is_broken: bool = False
    """Whether it was the validator itself that failed: then nothing passes, whatever the policy."""


class Validators:
    """Those of one worker, each run beside the event loop for a while at most."""

    def __init__(self, brought: Mapping[str, Validate] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._by_name = dict(brought or {})
        self._timeout_s = timeout_s
        self._threads = ToolThreads(MOST_AT_A_TIME)

    async def said_of(self, name: str, subject: Subject) -> Said:
        """Return what the validator ``name`` says of ``subject``."""
        if name not in self._by_name:
            there = ", ".join(sorted(self._by_name)) or "none of plug-ins"
            return Said([f"no worker here has the validator {name!r}: there is {there}"], is_broken=True)
        try:
            return Said(_errors(name, await self._run(self._by_name[name], subject)))
        except (Exception, SystemExit) as error:
            if is_interruption_of_task(error):
                raise
            why = one_line(redact(said_by(error)), _LONGEST)
            return Said([f"the validator {name!r} failed: {type(error).__name__}: {why}"], is_broken=True)

    async def _run(self, validate: Validate, subject: Subject) -> Any:
        given = subject.text if subject.data is None else json.loads(subject.text)  # its own: it may change that
        async with asyncio.timeout(self._timeout_s), self._threads.running(partial(validate, given)) as outcome:
            return await outcome


def loaded_validators(allowed: Allowed) -> tuple[Validators, tuple[str, ...]]:
    """Return the validators that the settings allow, and what is wrong with others."""
    kind: Any = Callable
    loaded = load("guardrails", allowed, kind, own=BUILT_IN)
    return Validators(loaded.made), loaded.problems


def _errors(name: str, said: Any) -> list[str]:
    if isinstance(said, Mapping) and isinstance(said.get("valid"), bool):
        said = said["valid"] or said.get("error") or False
    match said:
        case None | True | "":
            return []
        case False:
            return [f"the validator {name!r} does not let it pass"]
        case str():
            return _lines([said])
        case list() | tuple() if all(isinstance(one, str) for one in said):
            return _lines(said)
    raise ToolError(f"it must return None, True, False, a text or a list of texts, not {type(said).__name__}")


def _lines(texts: list[str] | tuple[str, ...]) -> list[str]:
    lines = [one_line(str(storable(text)), _LONGEST) for text in texts[:_MOST_SAID]]
    return [line or "(it says nothing of why)" for line in lines]
