"""Rules: what is answered when. As JSON, in a file or by HTTP; every key but ``reply`` may be left out:

    {"when": {"model": RE, "system": RE, "last": RE, "has_tool": NAME, "answered": NAME},
     "times": 1, "delay": 0.5, "reply": {"text": "..."}}

Replies:

    {"text": "..."}  {"text": ["in ", "chunks"], "chunk_delay": 0.05}  {"thought": "...", "text": "..."}
    {"calls": [{"name": "f", "args": {}}, ...], "text": "besides"}   {..., "signature_apart": true}
    {"finish": "MALFORMED_FUNCTION_CALL", "message": "..."}   {"finish": "MAX_TOKENS", "text": "cut of"}
    {"empty": true} (STOP, no parts)   {"no_content": true}   {"no_candidate": true}
    {"block": "PROHIBITED_CONTENT"}   {"safety": true}
    {"error": 429, "retry_delay": 2.5}   {"error": 429, "per_day": true}   {"error": 429, "no_quota": true}
    {"error": 503, "retry_after": 3}   {"error": 400, "message": "..."}
    {"hang": SECONDS}   {"disconnect": true}   {"raw": "<html>", "status": 502}   {..., "location": "http://..."}
    {"text": [...], "cut_after": 1}   {"text": [...], "stream_error": 503}   {"text": [...], "no_finish": true}
"""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tests.doubles.gemini.wire import JSON, contents_of, declarations, last_text, parts_of, text_of

__all__ = ["Call", "Reply", "Rule", "When", "parse_rules"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Call(_Strict):
    name: str
    args: dict[str, Any] = {}
    id: str | None = None


class Reply(_Strict):
    text: str | list[str] | None = None
    """A list comes in as many chunks when it is streamed."""
    chunk_delay: float = 0
    thought: str | None = None
    calls: list[Call] = []
    signature_apart: bool = False
    """The signature comes on a last part of its own, with empty text."""
    finish: str = "STOP"
    message: str | None = None
    empty: bool = False
    no_content: bool = False
    no_candidate: bool = False
    no_finish: bool = False
    block: str | None = None
    safety: bool = False
    error: int | None = None
    retry_delay: float = 1
    retry_after: float | None = None
    per_day: bool = False
    no_quota: bool = False
    hang: float = 0
    disconnect: bool = False
    raw: str | None = None
    status: int = 200
    location: str | None = None
    cut_after: int | None = None
    stream_error: int | None = None

    @property
    def texts(self) -> list[str]:
        return self.text if isinstance(self.text, list) else [self.text] if self.text else []


class When(_Strict):
    """All that is given must fit."""

    model: str | None = None
    system: str | None = None
    last: str | None = None
    """Searched in what the user said last."""
    has_tool: str | None = None
    answered: str | None = None
    """The last content answers a call of this function."""

    def fits(self, model: str, body: JSON) -> bool:
        texts = (
            (self.model, model),
            (self.system, text_of(body.get("systemInstruction"))),
            (self.last, last_text(body)),
        )
        return (
            all(pattern is None or re.search(pattern, text, re.DOTALL) for pattern, text in texts)
            and (self.has_tool is None or self.has_tool in {one["name"] for one in declarations(body)})
            and (self.answered is None or self.answered in _answered(body))
        )


class Rule(_Strict):
    when: When = When()
    reply: Reply
    times: int | None = None
    """How often it is used; None: for ever."""
    delay: float = 0
    again: bool = False
    """Calls again although the last content answers a call: else a rule would call for ever."""

    def fits(self, model: str, body: JSON) -> bool:
        if self.times == 0 or not self.when.fits(model, body):
            return False
        would_loop = self.reply.calls and self.when != When() and self.when.answered is None and not self.again
        return not (would_loop and _answered(body))


def parse_rules(value: Any) -> list[Rule]:
    """Read a rule or a list of rules."""
    return TypeAdapter(list[Rule]).validate_python(value if isinstance(value, list) else [value])


def _answered(body: JSON) -> set[str]:
    last = contents_of(body)[-1:]
    return {part["functionResponse"]["name"] for one in last for part in parts_of(one) if "functionResponse" in part}
