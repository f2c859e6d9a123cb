"""Tool calls that a server gives as text, since it does not know how its model writes them.

Only an answer that is nothing but calls of tools that were offered is taken for calls: all else is what the model says.
"""

import json
from collections.abc import Collection, Iterator
from typing import Any

__all__ = ["calls_in"]

_LONGEST = 100_000
"""Characters of an answer that is looked at."""
_TAGGED = "<tool_call>", "</tool_call>"
"""As Hermes and Qwen write them."""
_FUNCTION = "<function=", "</function>"
"""As Llama does."""
_FENCE = "```"
_KEYS = frozenset({"name", "arguments", "parameters", "id", "type"})
_decoder = json.JSONDecoder()


class _NoCall(ValueError):
    """The text is something else."""


def calls_in(text: str, offered: Collection[str]) -> list[tuple[str, str]]:
    """Return the calls that ``text`` is, each as a tool's name and its arguments as JSON; none where it is no call."""
    text = text.strip()
    if not offered or len(text) > _LONGEST:
        return []
    try:
        found = list(_calls(text))
    except (ValueError, RecursionError):  # which JSON too deep raises
        return []
    return found if all(name in offered for name, _ in found) else []


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield every call. Raises ``ValueError`` where anything is none."""
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        text = text.removeprefix(_FENCE).removesuffix(_FENCE).strip()
        text = text.removeprefix("json").removeprefix("tool_call").strip()
    if text.startswith("{"):
        value, rest = _object(text)
        if rest:
            raise _NoCall
        yield _call(value)
        return
    while text:
        if text.startswith(_TAGGED[0]):
            value, text = _object(text.removeprefix(_TAGGED[0]))
            text = _behind(text, _TAGGED[1])
            yield _call(value)
        elif text.startswith(_FUNCTION[0]):
            name, found, text = text.removeprefix(_FUNCTION[0]).partition(">")
            value, text = _object(text)
            text = _behind(text, _FUNCTION[1])
            if not found:
                raise _NoCall
            yield name.strip(), json.dumps(value, ensure_ascii=False)
        else:
            raise _NoCall


def _object(text: str) -> tuple[dict[str, Any], str]:
    """Return the object that a text begins with, and what stands behind it."""
    text = text.lstrip()
    value, end = _decoder.raw_decode(text)
    if not isinstance(value, dict):
        raise _NoCall
    return value, text[end:].lstrip()


def _behind(text: str, end: str) -> str:
    """Return what stands behind a call's end, which the last one may lack."""
    if text and not text.startswith(end):
        raise _NoCall
    return text.removeprefix(end).lstrip()


def _call(value: dict[str, Any]) -> tuple[str, str]:
    """Return the call that an object of a name and arguments is."""
    arguments = value.get("arguments", value.get("parameters"))
    if not isinstance(value.get("name"), str) or not isinstance(arguments, dict) or value.keys() - _KEYS:
        raise _NoCall
    return value["name"], json.dumps(arguments, ensure_ascii=False)
