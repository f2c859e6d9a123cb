"""The HTTP side: paths, keys, streams, broken connections, records of requests."""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from tests.doubles.gemini.answers import chunks_of, embedding_of, whole
from tests.doubles.gemini.brain import think
from tests.doubles.gemini.checks import check
from tests.doubles.gemini.failures import ApiError, bad_key, no_key, quota
from tests.doubles.gemini.rules import Reply, Rule, parse_rules
from tests.doubles.gemini.wire import JSON, tokens
from tests.doubles.http_server import HttpDouble, HttpHandler

__all__ = ["MODELS", "GeminiServer", "Request"]

MODELS = (
    "gemini-4-argon",
    "gemini-3.8-flash",
    "gemini-3.1-pro-preview",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-2.5-flash-lite",
    "gemini-2.0-flash",
    "gemini-embedding-001",
)
_PATH = re.compile(
    r"/v1(?:beta1?|alpha)?/(?:(?:projects/[^/]+/locations/[^/]+/)?publishers/google/)?models(?:/([^/:]+)(?::(\w+))?)?"
)
_METHODS = ("generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents")
_SECRET_HEADERS = ("x-goog-api-key", "authorization")
_MINUTE_S = 60.0


@dataclass(frozen=True)
class Request:
    """One request as it came in, without its key."""

    method: str
    model: str
    body: JSON
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


class GeminiServer(HttpDouble):
    """Serves from a thread while it is entered. ``keys``: the ones that are valid; None: every one is."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        rpm: int | None = None,
        strict: bool = True,
        models: Iterable[str] = MODELS,
        keys: Iterable[str] | None = None,
    ) -> None:
        super().__init__(_Handler, host, port)
        self.models = set(models)
        self.keys = None if keys is None else set(keys)
        self.rpm = rpm
        self.strict = strict
        self._rules = list(rules)
        self._windows: dict[tuple[str, str], list[float]] = {}

    def add(self, *rules: Any) -> Self:
        """Add rules, written as in JSON."""
        parsed = [rule for one in rules for rule in parse_rules(one)]
        with self._lock:
            self._rules += parsed
        return self

    def reset(self) -> None:
        """Forget rules, requests and quotas."""
        super().reset()
        with self._lock:
            self._rules.clear()
            self._windows.clear()

    def check_key(self, key: str | None) -> None:
        if not key:
            raise no_key()
        if self.keys is not None and key not in self.keys:
            raise bad_key()

    def take_from_quota(self, key: str, model: str) -> None:
        """Count one request; raise when there were ``rpm`` of them within the last minute."""
        if self.rpm is None:
            return
        now = time.time()
        with self._lock:
            window = [at for at in self._windows.get((key, model), []) if at > now - _MINUTE_S]
            self._windows[key, model] = window
            if len(window) >= self.rpm:
                raise quota(model, round(_MINUTE_S - (now - window[0]), 3), limit=self.rpm)
            window.append(now)

    def choose(self, model: str, body: JSON) -> tuple[Reply, float]:
        """Return the reply of the first rule that fits, and how long to wait before it."""
        with self._lock:
            rule = next((rule for rule in self._rules if rule.fits(model, body)), None)
            if rule is None:
                return think(body), 0.0
            if rule.times is not None:
                rule.times -= 1
            return rule.reply, rule.delay + rule.reply.hang


class _Handler(HttpHandler):
    def get(self) -> None:
        self._answer({})

    def post(self, body: bytes) -> None:
        try:
            self._answer(json.loads(body or b"{}"))
        except json.JSONDecodeError:
            self.send(400, ApiError(400, "Invalid JSON payload received.").body)

    def _answer(self, body: Any) -> None:
        path = urlsplit(self.path).path
        try:
            self._control(path, body) if path.startswith("/__") else self._api(path, body)
        except ApiError as error:
            self.send(error.code, error.body, error.headers)

    def _control(self, path: str, body: Any) -> None:
        double = self.double
        try:
            if path == "/__requests":
                self.send(200, [asdict(one) for one in double.requests])
            elif path == "/__rules":
                double.add(body)
                self.send(200, {})
            elif path == "/__reset":
                double.reset()
                self.send(200, {})
            else:
                self.send(404, {})
        except ValidationError as error:
            self.send(400, {"error": str(error)})

    def _api(self, path: str, body: JSON) -> None:
        double, key = self.double, self._key()
        double.check_key(key)
        if not (found := _PATH.fullmatch(path)):
            raise ApiError(404, f"Not found: {path}")
        model, method = found[1], found[2]
        if model is None:
            self.send(200, {"models": [_card(name) for name in sorted(double.models)]})
        elif model not in double.models or (method is not None and method not in _METHODS):
            raise ApiError(
                404,
                f"models/{model} is not found for API version v1beta, or is not supported for {method or 'get'}. Call "
                "ListModels to see the list of available models and their supported methods.",
            )
        elif method is None:
            self.send(200, _card(model))
        else:
            headers = {k.lower(): v for k, v in self.headers.items() if k.lower() not in _SECRET_HEADERS}
            double.record(Request(method, model, body, path, headers))
            double.take_from_quota(key or "", model)
            self._call(model, method, body)

    def _key(self) -> str | None:
        bearer = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        in_query = parse_qs(urlsplit(self.path).query).get("key", [""])[0]
        return self.headers.get("x-goog-api-key") or bearer or in_query or None

    def _call(self, model: str, method: str, body: JSON) -> None:
        if method == "countTokens":
            self.send(200, {"totalTokens": tokens(body.get("contents") or "")})
        elif method == "embedContent":
            self.send(200, {"embedding": embedding_of(body)})
        elif method == "batchEmbedContents":
            self.send(200, {"embeddings": [embedding_of(one) for one in body["requests"]]})
        else:
            check(model, body, strict=self.double.strict)
            reply, wait_s = self.double.choose(model, body)
            self._wait(wait_s)
            self._reply(model, body, reply, is_stream=method == "streamGenerateContent")

    def _wait(self, seconds: float) -> None:
        """Wait as the rule says, or until the caller's own limit (which the header carries), or the server's end."""
        limit = float(self.headers.get("x-server-timeout") or "inf")
        self.double.wait(min(seconds, limit))
        if seconds > limit:
            raise ApiError(504)

    def _reply(self, model: str, body: JSON, reply: Reply, *, is_stream: bool) -> None:
        if reply.disconnect:
            self.drop()
        elif reply.raw is not None:
            self.send(reply.status, reply.raw.encode(), {"location": reply.location} if reply.location else None)
        elif reply.error is not None:
            raise _failure(model, reply)
        elif is_stream:
            self._stream(chunks_of(model, body, reply), reply)
        else:
            self.send(200, whole(chunks_of(model, body, reply)))

    def _stream(self, chunks: list[JSON], reply: Reply) -> None:
        self.begin_stream()
        for index, chunk in enumerate(chunks):
            if index:
                self._wait(reply.chunk_delay)
            self._event(chunk)
            if reply.cut_after == index + 1:
                self.drop()
                return
            if reply.stream_error and index == max(0, len(chunks) - 2):
                self._event(ApiError(reply.stream_error).body)
                break
        self.end_stream()

    def _event(self, value: JSON) -> None:
        self.stream(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\r\n\r\n")


def _failure(model: str, reply: Reply) -> ApiError:
    if reply.error == 429 and reply.retry_after is None:
        return quota(model, reply.retry_delay, per_day=reply.per_day, limit=0 if reply.no_quota else 10)
    headers = {} if reply.retry_after is None else {"retry-after": f"{reply.retry_after:g}"}
    return ApiError(reply.error or 500, reply.message, headers=headers)


def _card(name: str) -> JSON:
    methods = ["embedContent"] if "embedding" in name else ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "version": "001", "displayName": name, "supportedGenerationMethods": methods}
