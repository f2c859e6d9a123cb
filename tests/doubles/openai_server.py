"""A server that speaks OpenAI's Chat Completions, checks requests as OpenAI does, and plays every failure.

Rules are dictionaries, the first that fits and is not used up answers; without one, an echo:

    {"when": {"last": RE, "model": RE, "answered": NAME}, "times": 1, "reply": {...}}

Replies:

    {"text": "..."}  {"text": ["in ", "chunks"], "chunk_delay": 0.05}  {"thought": "...", "thought_as": "reasoning"}
    {"calls": [{"name": "f", "args": {}, "id": "call_1"}]}  {"calls": [{"name": "f", "raw": "{bad"}], "in_pieces": true}
    {"finish": "length"}  {"finish": null}  {"refusal": "..."}  {"images": [{}]}  {"served": "gpt-x-2026-01-01"}
    {"error": 429, "retry_after": 3, "code": "...", "param": "...", "message": "...", "headers": {}}
    {"hang": SECONDS}  {"disconnect": true}  {"raw": "<html>", "status": 502}  {"text": [...], "cut_after": 1}
    {"text": [...], "stream_error": "overloaded"}  {"no_usage": true}

Its embeddings are of the text alone; where ``embedding_reply`` is set, that answers.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.http_server import JSON, HttpDouble, HttpHandler

__all__ = ["JSON", "MODELS", "Handler", "OpenAIServer", "Refusal", "Request"]

EMBEDDING_MODELS = ("text-embedding-3-small", "nomic-embed-text")
MODELS = ("qwen3", "gpt-5-mini", "deepseek-reasoner")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_ID = 40


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    body: JSON
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """An answer that is an error, as OpenAI words it."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.headers = status, {str(k): str(v) for k, v in more.pop("headers", {}).items()}
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None} | more}


class OpenAIServer(HttpDouble):
    """Serves from a thread while it is entered. ``keys``: the ones that are valid; None: every one is, none as well."""

    def __init__(self, *rules: JSON, keys: set[str] | None = None, handler: "type[Handler] | None" = None) -> None:
        super().__init__(handler or Handler)
        self.url += "/v1"
        self.keys = keys
        self.embedding_reply: JSON | None = None
        self._rules = [dict(rule) for rule in rules]

    def add(self, *rules: JSON) -> None:
        with self._lock:
            self._rules += [dict(rule) for rule in rules]

    def reset(self) -> None:
        super().reset()
        with self._lock:
            self._rules.clear()
        self.keys = self.embedding_reply = None

    def choose(self, request: Request) -> JSON:
        """Record the request; return the reply of the first rule that fits."""
        with self._lock:
            self.requests.append(request)
            for rule in self._rules:
                if rule.get("times") != 0 and self.fits(rule.get("when", {}), request.body):
                    rule["times"] = rule.get("times", -1) - 1
                    return dict(rule["reply"])
        return {"text": f"[local model] {self.last(request.body)[:400]}"}

    def fits(self, when: JSON, body: JSON) -> bool:
        """Tell whether a rule is for a request."""
        return _fits(when, body)

    def last(self, body: JSON) -> str:
        """Return what a request's user says last."""
        return _last(body)


def _fits(when: JSON, body: JSON) -> bool:
    answered = {_name_of(body, one["tool_call_id"]) for one in _tail(body) if one["role"] == "tool"}
    return (
        re.search(when.get("last", ""), _last(body), re.DOTALL) is not None
        and re.search(when.get("model", ""), body["model"]) is not None
        and ("answered" not in when or when["answered"] in answered)
    )


def _last(body: JSON) -> str:
    return next((one["content"] for one in reversed(body["messages"]) if one["role"] == "user"), "")


def _tail(body: JSON) -> list[JSON]:
    """The messages since a model's last one."""
    places = [place for place, one in enumerate(body["messages"]) if one["role"] == "assistant"]
    messages: list[JSON] = body["messages"]
    return messages[places[-1] + 1 :] if places else messages


def _name_of(body: JSON, call_id: str) -> str:
    calls = (call for one in body["messages"] for call in one.get("tool_calls") or [])
    return next((call["function"]["name"] for call in calls if call["id"] == call_id), "")


def _check(body: JSON) -> None:
    """Refuse what OpenAI refuses."""
    if body.get("stream_options") and not body.get("stream"):
        raise Refusal(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if body.get("tool_choice") and not body.get("tools"):
        raise Refusal(400, "'tool_choice' is only allowed when 'tools' are specified.")
    for tool in body.get("tools") or []:
        if not _NAME.fullmatch(tool["function"]["name"]) or tool["function"]["parameters"].get("type") != "object":
            raise Refusal(400, f"Invalid tool {tool['function']['name']!r}", param="tools")
    _check_messages(body["messages"])


def _check_messages(messages: list[JSON]) -> None:
    """Refuse calls that are not answered at once, each of them, and answers to nothing."""
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise Refusal(
                    400, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                )
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            raise Refusal(400, f"An assistant message with 'tool_calls' must be followed by tool messages: {open_ids}")
        open_ids = [call["id"] for call in message.get("tool_calls") or []]
        if any(len(one) > _MAX_ID for one in open_ids) or len(set(open_ids)) < len(open_ids):
            raise Refusal(400, "Invalid 'tool_calls[].id': string too long, or not unique.")
        if message["content"] is None and not open_ids:
            raise Refusal(400, "Invalid value for 'content': expected a string, got null.")
    if open_ids:
        raise Refusal(400, f"An assistant message with 'tool_calls' must be followed by tool messages: {open_ids}")


def _message(reply: JSON) -> JSON:
    texts = reply.get("text")
    message: JSON = {"role": "assistant", "content": "".join(texts) if isinstance(texts, list) else texts}
    if thought := reply.get("thought"):
        message[reply.get("thought_as", "reasoning_content")] = thought
    message |= {key: reply[key] for key in ("refusal", "images") if key in reply}
    if calls := reply.get("calls"):
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def _call(call: JSON) -> JSON:
    arguments = call["raw"] if "raw" in call else json.dumps(call.get("args", {}))
    made = {"id": call.get("id", f"call_{uuid.uuid4().hex[:24]}"), "type": "function"}
    return made | {"function": {"name": call["name"], "arguments": arguments}}


def _finish(reply: JSON) -> str | None:
    return str(reply["finish"]) if reply.get("finish") else None if "finish" in reply else "stop"


def _usage(body: JSON, reply: JSON) -> JSON:
    told = (
        len(str(reply.get("thought") or "")) + len("".join(reply.get("text") or "")) + len(str(reply.get("calls", "")))
    )
    counts = {"prompt_tokens": len(json.dumps(body["messages"])) // 4, "completion_tokens": told // 4}
    return counts | {"total_tokens": sum(counts.values())}


def _deltas(reply: JSON) -> Iterator[JSON]:
    """Return the message in pieces: a thought, each text of a list, calls; with ``in_pieces`` their arguments, too."""
    message = _message(reply)
    calls = message.pop("tool_calls", [])
    texts = reply.get("text")
    first = {key: value for key, value in message.items() if key != "content"}
    yield first | {"content": None}
    for text in texts if isinstance(texts, list) else [texts] if texts else []:
        yield {"content": text}
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        cuts = [arguments[:3], arguments[3:]] if reply.get("in_pieces") else [arguments]
        at = 0 if reply.get("all_first") else index
        yield {"tool_calls": [{**call, "index": at, "function": {**call["function"], "arguments": cuts[0]}}]}
        for cut in cuts[1:]:
            yield {"tool_calls": [{"index": at, "function": {"arguments": cut}}]}


class Handler(HttpHandler):
    def get(self) -> None:
        self.send(200, self.models() if self.path.partition("?")[0] == "/v1/models" else {})

    def models(self) -> JSON:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in MODELS]
        return {"object": "list", "data": listed}

    def post(self, body: bytes) -> None:
        try:
            self._answer(json.loads(body))
        except Refusal as refusal:
            self.send(refusal.status, refusal.body, refusal.headers)

    def _answer(self, body: JSON) -> None:
        double = self.double
        if self.path == "/v1/embeddings":
            self._embed(body)
            return
        if self.path != "/v1/chat/completions":
            self.send(404, b"<html>not found</html>")
            return
        self._check_key()
        if body["model"] not in MODELS:
            raise Refusal(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        _check(body)
        reply = double.choose(Request(body, {name.lower(): value for name, value in self.headers.items()}))
        double.wait(reply.get("hang", 0))
        self._reply(body, reply)

    def _check_key(self) -> None:
        key, keys = (self.headers.get("authorization") or "").removeprefix("Bearer "), self.double.keys
        if keys is not None and key not in keys:
            raise Refusal(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")

    def _embed(self, body: JSON) -> None:
        """Answer with vectors that depend on the text alone, or as ``embedding_reply`` says."""
        double = self.double
        self._check_key()
        double.record(Request(body, {name.lower(): value for name, value in self.headers.items()}))
        if double.embedding_reply is not None:
            self._reply(body, double.embedding_reply)
            return
        if body["model"] not in EMBEDDING_MODELS:
            raise Refusal(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        if not all(isinstance(text, str) and text for text in body["input"]):
            raise Refusal(400, "'$.input' is invalid.", param="input")
        size = body.get("dimensions") or 96
        vectors = [
            [(byte - 128) / 128 for byte in hashlib.shake_256(text.encode()).digest(size)] for text in body["input"]
        ]
        data = [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        self.send(200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage})

    def _reply(self, body: JSON, reply: JSON) -> None:
        if reply.get("disconnect"):
            self.drop()
        elif "raw" in reply:
            self.send(
                reply.get("status", 200),
                reply["raw"].encode(),
                {"content-type": reply.get("type", "text/html"), "location": reply.get("location", "")},
            )
        elif "error" in reply:
            after = {"retry-after": reply["retry_after"]} if "retry_after" in reply else {}
            more = {key: reply[key] for key in ("code", "param") if key in reply}
            message = reply.get("message", "something is wrong")
            raise Refusal(reply["error"], message, headers=after | reply.get("headers", {}), **more)
        elif body.get("stream"):
            self._stream(body, reply)
        else:
            choice = {"index": 0, "message": _message(reply), "finish_reason": _finish(reply)}
            usage = {} if reply.get("no_usage") else {"usage": _usage(body, reply)}
            self.send(200, _head(body, reply, "chat.completion") | {"choices": [choice]} | usage)

    def _stream(self, body: JSON, reply: JSON) -> None:
        self.begin_stream()
        head = _head(body, reply, "chat.completion.chunk")
        for number, delta in enumerate(_deltas(reply)):
            self.double.wait(reply.get("chunk_delay", 0) if number else 0)
            self._event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            if reply.get("cut_after") == number:
                self.drop()
                return
        if error := reply.get("stream_error"):
            self._event({"error": {"message": error, "type": "server_error", "code": None}})
        elif (finish := _finish(reply)) is not None:
            self._event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            if (body.get("stream_options") or {}).get("include_usage") and not reply.get("no_usage"):
                self._event(head | {"choices": [], "usage": _usage(body, reply)})
            self.stream(b"data: [DONE]\n\n")
        self.end_stream()

    def _event(self, value: JSON) -> None:
        self.stream(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")


def _head(body: JSON, reply: JSON, kind: str) -> JSON:
    served = reply.get("served", body["model"])
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": 0, "model": served}
