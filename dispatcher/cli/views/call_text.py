"""A tool's call on one line: what it is about first, then what else is short; all of it where that is asked for."""

import json
from collections.abc import Mapping
from typing import Any

from ekiden.shared.cells import cut
from ekiden.shared.redaction import redact

__all__ = ["call_text", "deciding"]

_DECIDING = (
    "command",
    "file_path",
    "pattern",
    "query",
    "url",
    "path",
    "dir_path",
    "name",
    "objective",
    "question",
)
"""What a call is about, where it has one of these; else its first argument."""
_SHORT = 40
"""Characters of an argument that may stand beside it."""
_WHOLE = 4_000
"""Cells of a line that holds all arguments: one of them may be a file."""


def call_text(name: str, args: Mapping[str, Any], width: int, dots: str = "...", *, is_whole: bool = False) -> str:
    """Return a call as ``bash ls -la dir_path=src``, cut at ``width`` cells; what looks like a secret is masked first.

    ``is_whole``: every argument by its name, however long the line is.
    """
    main = None if is_whole else next((one for one in _DECIDING if one in args), next(iter(args), None))
    rest = {key: _word(value) for key, value in args.items() if key != main}
    named = [f"{key}={text}" for key, text in rest.items() if is_whole or len(text) <= _SHORT]
    words = [name, *([] if main is None else [_as_text(args[main])]), *named]
    width = max(width, _WHOLE) if is_whole else width
    return cut(redact(" ".join(words)[: 100 * width]), width, dots)


def deciding(args: Mapping[str, Any]) -> str:
    """Return what a call with these arguments is about, as it is; empty without any."""
    return next((_as_text(args[one]) for one in (*_DECIDING, *args) if one in args), "")


def _word(value: Any) -> str:
    return (
        value if isinstance(value, str) and value and not value.split()[1:] else json.dumps(value, ensure_ascii=False)
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
