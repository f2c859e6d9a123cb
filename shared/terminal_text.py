"""Text of models, files and other users as people may look at it: what steers a terminal or hides is shown instead."""

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["note", "one_line", "say", "say_json", "visible"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # the controls, C0 and C1, but tab and newline
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # whatever reorders: marks, overrides and isolates of both ways
    "|[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f]"  # no width
    "|[\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
    "|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"  # tags and what has no meaning yet: a text that cannot be seen
    # Variation selectors spell bytes when they stand in a row; one behind a letter chooses its form.
    "|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    "|[\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return ``text`` with ``\u202e`` and the like in place of what would steer a terminal or could not be seen.

    Joiners stay: Persian and emoji need them. The form is JSON's own, so that JSON stays the JSON that it was.
    """
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = 80, dots: str = "...") -> str:
    """Return ``text`` on one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - len(dots)] + dots


def say(text: object, *, is_error: bool = False) -> None:
    """Write a line to standard output, at once, as it is; ``is_error``: see ``note``."""
    shown = visible(str(text))
    print(_broken(shown) if is_error else shown, file=sys.stderr if is_error else sys.stdout, flush=True)


def say_json(value: Mapping[str, Any]) -> None:
    """Write an object to standard output, on one line, at once."""
    say(json.dumps(value, ensure_ascii=False, default=str))


def note(text: object) -> None:
    """Write a line for people beside the answer: to standard error, at once, broken at words on a terminal."""
    say(text, is_error=True)


def _broken(text: str) -> str:
    if not sys.stderr.isatty():
        return text
    from ekiden.shared.cells import wrapped

    return wrapped(text, _columns())


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stderr.fileno()).columns) or 80
    except (OSError, ValueError):
        return 80
