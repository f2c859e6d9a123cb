"""What a call that runs shares with whoever runs it: whether it is cancelled, what it shows meanwhile, what it keeps.

Used from the tool's thread and from the event loop alike.
"""

import asyncio
import math
import mimetypes
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ekiden.shared.errors import ToolError
from ekiden.shared.relay.live import Live

__all__ = ["MadeFile", "Notes", "Outputs", "Running", "Shown", "size_of", "to_followers"]

_MOST_SHOWN = 100_000
"""Characters that one call shows while it runs."""
_MOST_ARTIFACTS = 20
_MOST_BYTES = 10_000_000
"""Of all artifacts of a call."""
_LONGEST_NAME = 200


@dataclass(frozen=True)
class MadeFile:
    """A file that a tool made, before it is kept."""

    name: str
    content: str | bytes
    mime: str


@dataclass(frozen=True)
class Shown:
    """What a call shows while it runs: some more output, and how far it is (None: it has not said)."""

    text: str = ""
    fraction: float | None = None
    about: str = ""
    """What it is about just now."""


def to_followers(live: Live | None, call: str) -> Callable[[Shown], None] | None:
    """Return what takes what a call shows while it runs to those who follow the job; None: there is nobody."""
    if live is None:
        return None

    def show(shown: Shown) -> None:
        if shown.text:
            live.show(call, shown.text)
        if shown.fraction is not None:
            live.show(call, shown.about, shown.fraction)

    return show


class Outputs(Protocol):
    """Keeps what is too large for the journal, by reference, for as long as the job's journal."""

    async def keep(self, content: str | bytes) -> str | None:
        """Keep ``content`` and return its reference; None: the job has kept as much as it may."""
        ...

    async def read(self, ref: str) -> str | bytes | None:
        """Return what was kept; None: nothing was under this reference."""
        ...


class Notes(Protocol):
    """An agent's notes of earlier jobs."""

    async def save(self, content: str, key: str, tags: Iterable[str], once: str) -> str:
        """Keep a note, once for each ``once``; return what a model is told. Raises ``InvalidRequest``."""
        ...

    async def recall(self, query: str, limit: int | None) -> tuple[str, str]:
        """Return the notes that fit, for a model, and what text of unknown authors is in them, in words."""
        ...

    async def forget(self, note: str) -> list[str]:
        """Take a note away, by its id or its key; return the ids of what is gone."""
        ...


class Running:
    """One run of one call. ``show`` is called on the event loop that this was made on, never more often than it can."""

    def __init__(self, show: Callable[[Shown], None] | None = None) -> None:
        self.artifacts: list[MadeFile] = []
        self.untrusted = ""
        """What text of an unknown author its result has, in words, where not all of the tool's results have."""
        self._show = show
        self._loop = asyncio.get_running_loop() if show else None
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._pending: Shown | None = None
        self._room = _MOST_SHOWN

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Say that nobody waits for the result any more, and show nothing from now on."""
        self._cancelled.set()

    def write(self, text: str) -> None:
        """Show some more output, up to a limit, of which is told once."""
        with self._lock:
            fits, self._room = text[: self._room], max(0, self._room - len(text))
            if len(fits) < len(text) and fits:
                fits += f"\n(no more than {_MOST_SHOWN:,} characters are shown while a tool runs)\n"
        if fits:
            self._tell(fits, None, "")

    def progress(self, fraction: float, about: str) -> None:
        """Show how far the call is."""
        if not math.isfinite(fraction):
            raise ToolError(f"progress is a number from 0 to 1, not {fraction}")
        self._tell("", min(max(fraction, 0.0), 1.0), about[:_LONGEST_NAME])

    def artifact(self, name: str, content: str | bytes, mime: str) -> None:
        """Take a file, to be kept with the result."""
        if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME or "/" in name or name in (".", ".."):
            raise ToolError(f"{name[:_LONGEST_NAME]!r} is no name for an artifact: give a file's name without folders")
        if len(self.artifacts) >= _MOST_ARTIFACTS:
            raise ToolError(f"a call keeps {_MOST_ARTIFACTS} artifacts at most")
        size = sum(size_of(one.content) for one in self.artifacts) + size_of(content)
        if size > _MOST_BYTES:
            raise ToolError(f"the artifacts of a call have {_MOST_BYTES:,} bytes together at most, not {size:,}")
        by_itself = "text/plain" if isinstance(content, str) else "application/octet-stream"
        self.artifacts.append(MadeFile(name, content, mime or mimetypes.guess_type(name)[0] or by_itself))

    def _tell(self, text: str, fraction: float | None, about: str) -> None:
        """Join it to what waits to be shown: only the first of that wakes the loop."""
        if self._loop is None or self.is_cancelled:
            return
        with self._lock:
            waiting = self._pending
            before = waiting or Shown()
            is_news = fraction is not None
            self._pending = Shown(
                before.text + text, fraction if is_news else before.fraction, about if is_news else before.about
            )
        if waiting is None:
            with suppress(RuntimeError):  # the loop is closed: nobody is shown anything
                self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        with self._lock:
            shown, self._pending = self._pending, None
        if shown is not None and self._show is not None:
            self._show(shown)


def size_of(content: str | bytes) -> int:
    """Return how many bytes a text (as UTF-8) or bytes have."""
    return len(content.encode(errors="replace") if isinstance(content, str) else content)
