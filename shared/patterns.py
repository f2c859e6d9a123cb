"""Regular expressions that a file or a model wrote, run by RE2: linear in the text, and by how much is bounded."""

from typing import Any, Protocol

import re2

from ekiden.shared.errors import DefinitionError

__all__ = ["MAX_LENGTH", "MAX_PROGRAM", "Pattern", "compile_pattern", "raw_pattern"]

MAX_LENGTH = 1_000
"""Characters of an expression."""
MAX_PROGRAM = 2_000
"""Instructions of a compiled expression. Each byte of a text may cost all of them, about 10 ns each."""


class Pattern(Protocol):
    """A compiled expression."""

    programsize: int
    """Instructions, which is what a byte of a text costs at most."""

    def search(self, text: bytes) -> Any:
        """Return something true when the expression occurs in the UTF-8 encoded ``text``."""
        ...


def compile_pattern(text: str, *, ignore_case: bool = False, named: str | None = None) -> Pattern:
    """Compile an expression of RE2's syntax; ``named`` is what its author wrote, where that was something else.

    Raises:
        DefinitionError: RE2 cannot read it (with RE2's reason), or it is too long or too large to be run.
    """
    said = text if named is None else named
    if len(said) > MAX_LENGTH:
        raise DefinitionError(f"a pattern has at most {MAX_LENGTH:,} characters, not {len(said):,}: {said[:60]!r}…")
    try:
        compiled: Pattern = raw_pattern(text, ignore_case=ignore_case)
    except (re2.error, UnicodeEncodeError) as error:
        raise DefinitionError(
            f"pattern {said!r} is not a regular expression of RE2: {_reason(error)}. "
            "Look-around and back-references do not exist there; write the pattern without them"
        ) from None
    if compiled.programsize > MAX_PROGRAM:
        raise DefinitionError(
            f"pattern {said!r} is too large to run: {compiled.programsize:,} instructions, at most {MAX_PROGRAM:,}. "
            "Repeat less ('+' instead of '{1,500}')"
        )
    return compiled


def raw_pattern(text: str, *, ignore_case: bool = False, max_mem: int = 8 << 20) -> Any:
    """Compile an expression of our own, of any size. Raises ``re2.error`` and ``UnicodeEncodeError``."""
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False  # RE2 would write to stderr beside raising
    options.max_mem = max_mem
    return re2.compile(text, options)


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)
