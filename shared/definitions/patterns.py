"""Regular expressions of agent files, run by RE2: linear in the text, whatever the pattern."""

from typing import Protocol

import re2

from shared.errors import DefinitionError

__all__ = ["Pattern", "compile_pattern"]


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: bytes) -> object | None:
        """Return something true when the expression occurs in the UTF-8 encoded ``text``."""
        ...


def compile_pattern(text: str) -> Pattern:
    """Compile ``text``, case-insensitive, in RE2's syntax.

    Raises:
        DefinitionError: RE2 cannot read it, with RE2's reason.
    """
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False  # RE2 would write to stderr beside raising
    try:
        compiled: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise DefinitionError(
            f"pattern {text!r} is not a regular expression of RE2: {_reason(error)}. "
            "Look-around and back-references do not exist there; write the pattern without them"
        ) from None
    return compiled


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)
