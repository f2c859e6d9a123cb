"""What is answered when no rule fits: the tool that shares most words with the user's text, else an echo."""

import re
from typing import Any

from tests.doubles.gemini.rules import Call, Reply
from tests.doubles.gemini.wire import JSON, contents_of, declarations, has, last_text

__all__ = ["think"]

_STOP_WORDS = {"the", "and", "for", "you", "tran", "transfer"}


def think(body: JSON) -> Reply:
    """Answer deterministically."""
    text = last_text(body)
    choice = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = choice.get("allowedFunctionNames")
    tools = [one for one in declarations(body) if not allowed or one["name"] in allowed]
    if tools and choice.get("mode") != "NONE" and not has(contents_of(body)[-1], "functionResponse"):
        scores = [len(_words(text) & _words(f"{one['name']} {one.get('description', '')}")) for one in tools]
        best = scores.index(max(scores))
        if scores[best] or choice.get("mode") == "ANY":
            return Reply(calls=[Call(name=tools[best]["name"], args=_filled(tools[best], text))])
    return Reply(text=f"[local model] {text[:400]}")


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z]{3,}", text.replace("_", " ").lower())} - _STOP_WORDS


def _filled(declaration: JSON, text: str) -> JSON:
    schema = declaration.get("parametersJsonSchema") or declaration.get("parameters") or {}
    properties = schema.get("properties") or {}
    return {name: _value(properties[name], text) for name in schema.get("required") or [] if name in properties}


def _value(schema: JSON, text: str) -> Any:
    if choices := schema.get("enum"):
        return next((one for one in choices if str(one).lower() in text.lower()), choices[0])
    kinds: JSON = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return kinds.get(str(schema.get("type")).lower(), text[:200])
