"""Where a chat's lines come from: a person at a terminal, or a pipe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

__all__ = ["LineInput", "PipedLines", "TypedLines", "lines_here"]

_MORE = "\\"
"""At the end of a line: the next one belongs to it."""


class LineInput(Protocol):
    """Gives what the user says, piece by piece."""

    def read(self) -> str | None:
        """Return the next text, of one line or several; None when there is no more."""
        ...


def lines_here(history: Path | None) -> LineInput:
    """Return the lines of standard input; ``history`` keeps what was typed, where there is a terminal."""
    return TypedLines(history) if sys.stdin.isatty() and sys.stdout.isatty() else PipedLines()


class PipedLines:
    """Reads standard input as it comes."""

    def read(self) -> str | None:
        """See ``LineInput``."""
        parts: list[str] = []
        while line := sys.stdin.readline():
            text = line.rstrip("\n")
            if not text.endswith(_MORE):
                return "\n".join([*parts, text])
            parts.append(text.removesuffix(_MORE))
        return "\n".join(parts) if parts else None


class TypedLines:
    """Reads a terminal, with editing and history. Alt-Enter or a backslash at the end begins another line."""

    def __init__(self, history: Path | None = None) -> None:
        self._history = history
        self._session: PromptSession[str] | None = None

    def read(self) -> str | None:
        """See ``LineInput``. Ctrl-C drops what was typed, Ctrl-D on an empty line is the end."""
        if self._session is None:
            self._session = _session(self._history)
        try:
            return self._session.prompt("You: ")
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


def _session(history: Path | None) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if history is not None:
        history.touch(mode=0o600)
    return PromptSession(
        history=FileHistory(str(history)) if history else InMemoryHistory(),
        multiline=True,
        prompt_continuation="   : ",
        key_bindings=_bindings(),
    )


def _bindings() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def accept(event: "KeyPressEvent") -> None:
        """Send, unless a backslash asks for another line."""
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith(_MORE):
            buffer.delete_before_cursor(len(_MORE))
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def begin_another(event: "KeyPressEvent") -> None:
        """Begin another line."""
        event.current_buffer.newline(copy_margin=False)

    return bindings
