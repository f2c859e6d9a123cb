"""Readings of a request's JSON that several modules need."""

import base64
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

__all__ = [
    "JSON",
    "contents_of",
    "declarations",
    "generation",
    "has",
    "last_text",
    "new_signature",
    "parts_of",
    "signer_of",
    "text_of",
    "tokens",
]

JSON = dict[str, Any]

_CAMEL = {"parameters_json_schema": "parametersJsonSchema", "response_json_schema": "responseJsonSchema"}
_FREE_SIGNATURES = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")


def contents_of(body: JSON) -> list[JSON]:
    return body.get("contents") or []


def parts_of(content: JSON | None) -> list[JSON]:
    return (content or {}).get("parts") or []


def has(content: JSON, kind: str) -> bool:
    return any(kind in part for part in parts_of(content))


def text_of(content: JSON | None) -> str:
    return " ".join(part.get("text", "") for part in parts_of(content))


def last_text(body: JSON) -> str:
    """The text that the user said last."""
    said = (text_of(one) for one in reversed(contents_of(body)) if one.get("role", "user") == "user")
    return next((text for text in said if text.strip()), "")


def declarations(body: JSON) -> list[JSON]:
    """The declared functions, keys in camel case: proto JSON takes both, and the client sends two in snake case."""
    return [{_CAMEL.get(key, key): value for key, value in one.items()} for one in _declared(body)]


def _declared(body: JSON) -> Iterator[JSON]:
    for tool in body.get("tools") or []:
        yield from tool.get("functionDeclarations") or tool.get("function_declarations") or []


def generation(model: str) -> tuple[int, int]:
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?", model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def tokens(value: Any) -> int:
    """About four characters a token, as for English."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return max(1, len(text) // 4)


def new_signature(model: str) -> str:
    """A thought signature: opaque, never the same twice, bound to the model that made it."""
    return base64.b64encode(b"sig:" + model.encode() + b":" + uuid.uuid4().bytes).decode()


def signer_of(signature: str) -> str | None:
    """The model that made the signature; ``*`` for the two that every model accepts, None for one nobody made."""
    raw = base64.b64decode(signature + "==", altchars=b"-_")
    if raw in _FREE_SIGNATURES:
        return "*"
    return raw[4:-17].decode() if raw.startswith(b"sig:") else None
