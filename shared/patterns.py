"""Regular expressions, run by RE2: linear in the text, and for those of others it is bounded by how much."""

import re
from collections.abc import Iterable
from typing import Any, Protocol

import re2

from ekiden.shared.errors import DefinitionError

__all__ = [
    "MAX_LENGTH",
    "MAX_PROGRAM",
    "Pattern",
    "PatternSet",
    "compile_pattern",
    "escaped",
    "pattern_among_lines",
    "pattern_set",
    "raw_pattern",
]

MAX_LENGTH = 1_000
"""Characters of an expression."""
MAX_PROGRAM = 2_000
"""Instructions of a compiled expression. Each byte of a text may cost all of them, about 10 ns each."""
_OTHER_AMONG_LINES = re.compile(r"\\[AzQ]|\(\?(?!i\)|:|P)")
"""What may mean something else there: where a text begins or ends, flags, quotes that nobody ends."""


class Pattern(Protocol):
    """A compiled expression."""

    programsize: int
    """Instructions, which is what a byte of a text costs at most."""

    def search(self, text: bytes) -> Any:
        """Return something true when the expression occurs in the UTF-8 encoded ``text``."""
        ...


class PatternSet(Protocol):
    """Expressions that are looked for in one pass."""

    def Match(self, text: bytes) -> list[int] | None:  # noqa: N802 - RE2's name
        """Return the places of those that occur in the UTF-8 encoded ``text``; None: it gave up."""
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
    options = _options(ignore_case=ignore_case)
    options.max_mem = max_mem
    return re2.compile(text, options)


def pattern_among_lines(text: str) -> Pattern | None:
    """Compile an expression so that it is found among many lines if it is in one; None: it may not be.

    Lines end with a plain line feed. What is found may lie in none of them by itself.
    """
    if _OTHER_AMONG_LINES.search(text):
        return None
    try:
        compiled: Pattern = raw_pattern(f"(?m:{text})")
    except re2.error:  # by itself it just fits
        return None
    return compiled


def pattern_set(patterns: Iterable[str], *, ignore_case: bool = False) -> PatternSet | None:
    """Compile expressions that ``compile_pattern`` took, to be looked for together; None: too large for one set."""
    together = re2.Set.SearchSet(_options(ignore_case=ignore_case))
    for pattern in patterns:
        together.Add(pattern)
    try:
        together.Compile()
    except re2.error:
        return None
    compiled: PatternSet = together
    return compiled


def escaped(text: str) -> str:
    """Return the expression that matches ``text`` itself."""
    return str(re2.escape(text))


def _options(*, ignore_case: bool) -> Any:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False  # RE2 would write to stderr beside raising
    return options


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)
