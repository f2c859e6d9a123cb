"""What is wrong with a value that people have written, in plain words: pydantic speaks to programmers."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_written", "fault_in", "in_plain_words", "why_unreadable"]

_WORDS = {"missing": "is missing", "extra_forbidden": "is not known here"}
_BARE = {"None": "null", "True": "true", "False": "false"}
_ASIDE = re.compile(r", unable to (parse|interpret) .*|, got a number with a fractional part")


def fault_in(detail: Mapping[str, Any]) -> str:
    """Return what one of pydantic's ``errors()`` says of the value, to stand behind its name."""
    if detail["type"] in _WORDS:
        return _WORDS[detail["type"]]
    return in_plain_words(str(detail["msg"]))


def in_plain_words(message: str) -> str:
    """Return a message of pydantic's likewise."""
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = re.sub(r"^(Input|String|List|Dictionary|Tuple|Set|Value|Data|Bytes|URL|Path) should ", "must ", text)
    return _ASIDE.sub("", text).replace("a valid integer", "a whole number").replace("a valid ", "a ")


def as_written(value: object) -> str:
    """Return a value that a file holds as people have written it: none of Python's words. Cut where it is long."""
    return _BARE.get(repr(value)) or f"{value!r:.80}"


def why_unreadable(error: OSError | ValueError) -> str:
    """Return why a file could not be read, without what Python says around it."""
    return getattr(error, "strerror", None) or ("it is no UTF-8" if isinstance(error, UnicodeError) else str(error))
