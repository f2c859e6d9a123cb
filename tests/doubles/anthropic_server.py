"""A server that speaks Anthropic's Messages API, checks requests as Anthropic does, and plays failures.

Rules and replies are those of ``openai_server``, with Anthropic's words for the ends:

    {"finish": "max_tokens"}  {"finish": "refusal"}  {"finish": null}  {"thought": "...", "signature": "..."}
    {"redacted": "..."}  {"calls": [{"name": "f", "raw": "{bad"}]}  {"images": true}
    {"error": 529, "type": "overloaded_error"}  {"text": [...], "stream_error": "overloaded_error"}
"""

import json
import re
import uuid
from collections.abc import Iterator

from tests.doubles.http_server import JSON
from tests.doubles.openai_server import Handler, OpenAIServer, Refusal, Request

__all__ = ["MODELS", "AnthropicServer"]

MODELS = ("claude-sonnet-5-5", "claude-haiku-5-5")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_TYPES |= {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


class AnthropicServer(OpenAIServer):
    """Serves from a thread while it is entered."""

    def __init__(self, *rules: JSON, keys: set[str] | None = None) -> None:
        super().__init__(*rules, keys=keys, handler=_Handler)
        self.url = self.url.removesuffix("/v1")

    def fits(self, when: JSON, body: JSON) -> bool:
        return (
            re.search(when.get("last", ""), self.last(body), re.DOTALL) is not None
            and re.search(when.get("model", ""), body["model"]) is not None
        )

    def last(self, body: JSON) -> str:
        texts = [one["content"] for one in body["messages"] if one["role"] == "user"]
        return next((text for text in reversed(texts) if isinstance(text, str)), "")


def _error(code: int, message: str, kind: str = "") -> JSON:
    return {"type": "error", "error": {"type": kind or _TYPES.get(code, "api_error"), "message": message}}


def _blocks_of(message: JSON, kind: str) -> list[JSON]:
    content = message["content"]
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


def _check(body: JSON) -> None:
    """Refuse what Anthropic refuses."""
    if not isinstance(body.get("max_tokens"), int):
        raise Refusal(400, "max_tokens: Field required")
    if body.get("tool_choice") and not body.get("tools"):
        raise Refusal(400, "tool_choice may only be specified while providing tools")
    for tool in body.get("tools") or []:
        if not _NAME.fullmatch(tool["name"]) or tool["input_schema"].get("type") != "object":
            raise Refusal(400, f"tools: invalid tool {tool['name']!r}")
    open_ids: list[str] = []
    for message in body["messages"]:
        if not message["content"]:
            raise Refusal(400, "messages: all messages must have non-empty content")
        answered = [block["tool_use_id"] for block in _blocks_of(message, "tool_result")]
        if answered != open_ids:
            raise Refusal(
                400, f"messages: tool_use ids {open_ids} need tool_result blocks right behind them: {answered}"
            )
        open_ids = [block["id"] for block in _blocks_of(message, "tool_use")]
        if len(set(open_ids)) < len(open_ids) or not all(map(_ID.fullmatch, open_ids)):
            raise Refusal(400, "messages: `tool_use` ids must be unique and match '^[a-zA-Z0-9_-]+$'")
    if open_ids:
        raise Refusal(400, "messages: the last tool_use has no tool_result")


class _Handler(Handler):
    def models(self) -> JSON:
        listed = [{"id": name, "type": "model", "display_name": name, "created_at": ""} for name in MODELS]
        return {"data": listed, "has_more": False, "first_id": None, "last_id": None}

    def _answer(self, body: JSON) -> None:
        double = self.double
        if self.path != "/v1/messages":
            self.send(404, b"<html>not found</html>")
            return
        try:
            key = self.headers.get("x-api-key") or ""
            if double.keys is not None and key not in double.keys:
                raise Refusal(401, f"invalid x-api-key {key}")
            if body["model"] not in MODELS:
                raise Refusal(404, f"model: {body['model']}")
            _check(body)
            reply = double.choose(Request(body, {name.lower(): value for name, value in self.headers.items()}))
            double.wait(reply.get("hang", 0))
            self._reply(body, reply)
        except Refusal as refusal:
            kind = refusal.body["error"].get("code") or ""
            self.send(refusal.status, _error(refusal.status, str(refusal), kind), refusal.headers)

    def _stream(self, body: JSON, reply: JSON) -> None:
        self.begin_stream()
        usage = {"input_tokens": len(json.dumps(body["messages"])) // 4, "output_tokens": 1}
        start = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": body["model"]}
        self._event({"type": "message_start", "message": start | {"content": [], "stop_reason": None, "usage": usage}})
        texts = written = 0
        for event in _events(reply):
            written += len(json.dumps(event)) // 8
            is_text = event.get("delta", {}).get("type") == "text_delta"
            self.double.wait(reply.get("chunk_delay", 0) if is_text and texts else 0)
            self._event(event)
            texts += is_text
            if is_text and reply.get("cut_after") == texts - 1:
                self.drop()
                return
        if error := reply.get("stream_error"):
            self._event(_error(200, "it is too much", error))
        elif (finish := reply.get("finish", "tool_use" if reply.get("calls") else "end_turn")) is not None:
            counts = {"output_tokens": written, **reply.get("usage", {})}
            self._event({"type": "message_delta", "delta": {"stop_reason": finish}, "usage": counts})
            self._event({"type": "message_stop"})
        self.end_stream()

    def _event(self, value: JSON) -> None:
        self.stream(f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode())


def _events(reply: JSON) -> Iterator[JSON]:
    """Yield the blocks of an answer: a thought, each text of a list as a piece of one block, calls."""
    texts = reply.get("text") or []
    blocks: list[tuple[JSON, list[JSON]]] = []
    if thought := reply.get("thought"):
        signature = {"type": "signature_delta", "signature": reply.get("signature", "c2lnbmVk")}
        pieces = [{"type": "thinking_delta", "thinking": thought}, signature]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, pieces))
    if data := reply.get("redacted"):
        blocks.append(({"type": "redacted_thinking", "data": data}, []))
    if texts:
        listed = texts if isinstance(texts, list) else [texts]
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in listed]))
    for call in reply.get("calls") or []:
        arguments = call["raw"] if "raw" in call else json.dumps(call.get("args", {}))
        made = {"type": "tool_use", "id": call.get("id", f"toolu_{uuid.uuid4().hex[:24]}"), "name": call["name"]}
        pieces = [{"type": "input_json_delta", "partial_json": cut} for cut in ("", arguments[:3], arguments[3:])]
        blocks.append((made | {"input": {}}, pieces))
    if reply.get("images"):
        blocks.append(({"type": "image", "source": {}}, []))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
