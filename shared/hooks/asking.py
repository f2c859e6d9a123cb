"""Asking hooks what they say of an event, and making one word of theirs.

They are asked in their order, each about what those before it have changed; neighbours of one owner that are
``parallel`` at once, all about the same. The first word that blocks or stops ends the round. Of texts all count, of
other values the last.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Generic, TypeVar

from ekiden.shared.errors import HookFailed
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.hooks.events import Event
from ekiden.shared.hooks.intervening import EVENTS, Intervening
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line, visible

__all__ = ["NOBODY", "HookAsking", "Said", "by_hooks", "name_of"]

_MOST_SAID = 2_000
"""Characters of a reason, and of a fault."""
_MOST_TEXT = 100_000
"""Characters of what a model or a user is told by one hook."""

E = TypeVar("E", bound=Event)

log = logging.getLogger(__name__)  # as in shared.hooks.base


@dataclass
class Said(Generic[E]):
    """What all hooks together say of an event."""

    event: E
    """As they have changed it."""
    block: str = ""
    stop: str = ""
    ask: str = ""
    context: str = ""
    notes: list[str] = field(default_factory=list)
    """For the user: what hooks say, and which of them failed and were passed over."""
    changed: list[str] = field(default_factory=list)
    """What of the event is another one now."""
    reply: ModelReply | None = None
    """The last that was given, or changed."""
    by: list[str] = field(default_factory=list)
    """The names of the hooks that have said something."""
    is_recorded: bool = False
    """Whether a journal says so, which has results and replies as they became: ``event`` is as it was changed."""

    def take(self, hook: Intervening, said: HookReply | None, seen: E) -> None:
        """Join in what a hook has said of the event as it has ``seen`` it."""
        if said is None or not said.said:
            return
        name, wrong = name_of(hook), [one for one in said.said if one not in seen.allowed]
        said = seen.heard(said)
        known = f"there are {', '.join(sorted(seen.allowed))}"
        if not seen.allowed.issuperset(said.said):
            raise TypeError(f"{wrong[0]!r} means nothing at {seen.name}: {known}")
        passed_over = (one for one in wrong if one != "ask")  # of that, a reason tells what it comes to
        self.notes += [f"{name}: {one!r} means nothing at {seen.name}: {known}" for one in passed_over]
        changed = self.event.changed(said, seen)
        self.changed += [one for one in said.said if one in _VALUES and one not in self.changed]
        self.event = changed
        self.by.append(name)
        self.block, self.stop = self.block or said.block[:_MOST_SAID], self.stop or said.stop[:_MOST_SAID]
        self.ask = self.ask or said.ask[:_MOST_SAID]
        self.context = "\n\n".join(filter(None, (self.context, said.context[:_MOST_TEXT])))
        self.notes += [f"{name}: {said.note[:_MOST_SAID]}"] if said.note else []
        self.reply = self.reply if said.reply is None else said.reply

    @property
    def is_over(self) -> bool:
        """Whether nobody else need be asked."""
        return bool(self.block or self.stop)


_VALUES = frozenset({"agent", "answer", "args", "result", "request", "reply", "tools"})


class HookAsking:
    """Asks those of some hooks that interfere."""

    def __init__(self, hooks: Iterable[Intervening] = ()) -> None:
        self._all = tuple(hooks)
        self._hooks = {event: at for event in EVENTS if (at := [one for one in self._all if one.intervenes_at(event)])}

    def __bool__(self) -> bool:
        """Whether anybody is asked of anything."""
        return bool(self._hooks)

    def and_those(self, hooks: Iterable[Intervening]) -> "HookAsking":
        """Return what asks ``hooks``, too, before its own, which have the last word."""
        return HookAsking((*hooks, *self._all))

    def at(self, event: str) -> bool:
        """Tell whether anybody is asked at the event of this name."""
        return event in self._hooks

    async def ask(self, event: E) -> Said[E]:
        """Return what all hooks say of ``event``; one that fails is named in ``notes``, and passed over.

        Raises:
            HookFailed: one that is required has failed.
        """
        said = Said(event)
        groups = groupby(enumerate(self._hooks.get(event.name, ())), key=_round_of)
        for _, group in groups:
            hooks, seen = [hook for _, hook in group], said.event
            for hook, reply in zip(hooks, await _replies(hooks, seen), strict=True):
                try:
                    if isinstance(reply, Exception):
                        raise reply
                    said.take(hook, reply, seen)
                except Exception as error:
                    said.notes.append(_fault(hook, seen, error))
            if said.is_over:
                break
        return said


NOBODY = HookAsking()


def name_of(hook: Intervening) -> str:
    """Return what people know a hook by."""
    name = getattr(hook, "name", None)
    return visible(one_line(name, 200)) if type(name) is str and name else type(hook).__qualname__


def by_hooks(names: Iterable[str]) -> str:
    """Say which hooks it was."""
    known = [*dict.fromkeys(names)]
    return f"the hook{'s' if len(known) > 1 else ''} {', '.join(map(repr, known))}"


def _round_of(placed: tuple[int, Intervening]) -> object:
    """Return what those share who are asked at once: neighbours of one owner that are parallel."""
    place, hook = placed
    return hook.owner if hook.parallel else place


async def _replies(hooks: Sequence[Intervening], event: Event) -> list[HookReply | Exception | None]:
    if len(hooks) == 1:
        return [await _reply(hooks[0], event)]
    return await asyncio.gather(*(_reply(hook, event) for hook in hooks))


async def _reply(hook: Intervening, event: Event) -> HookReply | Exception | None:
    """Return what a hook says, or what is wrong with it: code of others may raise anything, ``SystemExit`` too."""
    try:
        async with asyncio.timeout(hook.timeout_s) as scope:
            said: object = await hook.intervene(event)
        if said is None or isinstance(said, HookReply):
            return said
        return TypeError(f"it returned the type {type(said).__name__!r}, where a HookReply or None is expected")
    except BaseException as error:
        if is_interruption_of_task(error):
            raise
        if isinstance(error, TimeoutError) and scope.expired():
            return TimeoutError(f"no answer within {hook.timeout_s:g} s")
        return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {said_by(error)}")


def _fault(hook: Intervening, event: Event, error: Exception) -> str:
    """Log what is wrong with a hook, and return it for the user. Raises ``HookFailed`` where it is required."""
    kind = "" if isinstance(error, HookFailed | TimeoutError) else f"{type(error).__name__}: "
    why = visible(one_line(redact(f"{kind}{said_by(error)}"), _MOST_SAID))
    text = f"the hook {name_of(hook)!r} failed at {event.name} ({why})"
    log.error("hook_failed: %s", text, exc_info=None if isinstance(error, HookFailed | TimeoutError) else error)
    if hook.required:
        raise HookFailed(f"{text}, and it is required: mend it, or take 'required' from it") from error
    return f"{text}: the job goes on without it"
