"""The regexes of scripts: RE2's, counted by what they cost."""

from functools import lru_cache
from typing import Any

import re2

from ekiden.shared.patterns import compile_pattern
from ekiden.shared.step_limits import spend

__all__ = ["compiled", "literally", "searched"]


@lru_cache(maxsize=512)
def compiled(pattern: str, flags: str = "sm") -> Any:
    """Compile a regex, with RE2's flags. Raises ``DefinitionError``."""
    return compile_pattern(f"(?{flags}){pattern}", named=pattern)


def searched(pattern: str, text: str, flags: str = "sm") -> Any:
    """Return the first match of ``pattern`` in ``text``, or None. Raises ``DefinitionError``."""
    regex = compiled(pattern, flags)
    spend(1 + regex.programsize * len(text) // 512)
    return regex.search(text.encode("utf-8", "replace").decode())  # RE2 takes no lone surrogates


def literally(text: str) -> str:
    """Return the regex that matches ``text`` itself."""
    return str(re2.escape(text))
