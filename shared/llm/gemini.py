"""Gemini as a ``ChatModel``: through AI Studio with a key, or through Vertex AI.

google-genai takes a second to import: it is loaded, in a thread, by the first call.
"""

import asyncio
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shared.errors import ConfigurationError, MalformedCall, MissingModel, ModelUnavailable
from shared.llm.base import Delta, FinishReason, ModelReply, ModelRequest, OnDelta
from shared.messages import Message, Usage, user_message

if TYPE_CHECKING:
    from shared.llm.genai.connection import Connection
    from shared.llm.genai.replies import Reading

__all__ = ["GeminiAccess", "GeminiModel"]

DEFAULT_TIMEOUT_S = 120.0

_CORRECTIONS: dict[FinishReason, int] = {"malformed_call": 1, "empty": 2}
"""How often a model is asked again in one call, by how its answer ended. No other end is asked again."""
_NOTES: dict[FinishReason, str] = {
    "malformed_call": (
        "[Your last reply was thrown away: it held a tool call that cannot be read ({detail}). Call tools as function "
        "calls, by their declared names and with arguments that fit their schema, never as code or text.{tools}]"
    ),
    "empty": "[Your last reply was empty. Go on: call a tool, or answer the user.]",
}
_MAX_DETAIL = 200
_NO_KEY = (
    "no key: set GEMINI_API_KEY (from https://aistudio.google.com/apikey), or GOOGLE_GENAI_USE_VERTEXAI=true with "
    "GOOGLE_CLOUD_PROJECT"
)


@dataclass(frozen=True)
class GeminiAccess:
    """Where Gemini is and who pays: a key of AI Studio, or Vertex AI with a project (or a key of its own)."""

    api_key: str | None = None
    is_vertex: bool = False
    project: str | None = None
    location: str | None = None
    base_url: str | None = None
    """Another address than Google's: a proxy, a test server."""
    credentials: Any = None
    """google-auth credentials for Vertex AI; None: the application default ones."""

    def __repr__(self) -> str:
        """Show all but the secrets."""
        where = f"Vertex AI, project {self.project!r}" if self.is_vertex else "AI Studio"
        return f"GeminiAccess({where}, base_url={self.base_url!r})"

    @classmethod
    def from_env(cls, env: Mapping[str, str], base_url: str | None = None) -> "GeminiAccess":
        """Read the variables of gemini-cli and google-genai; ``base_url`` outranks theirs.

        Raises:
            MissingModel: there is neither a key nor a project.
            ConfigurationError: a value cannot be what it is meant to be.
        """
        if why := cls.why_not(env):
            raise MissingModel(f"Gemini cannot be used: {why}")
        is_vertex = _flag(env, "GOOGLE_GENAI_USE_VERTEXAI")
        project = _value(env, "GOOGLE_CLOUD_PROJECT") if is_vertex else None
        address = base_url or _value(env, "GEMINI_BASE_URL") or _value(env, f"GOOGLE_{_service(is_vertex)}_BASE_URL")
        if address and not re.match(r"https?://[^/\s]", address):
            raise ConfigurationError(f"Gemini's base URL {address!r} must begin with http:// or https:// and a host")
        return cls(
            api_key=None if project else _key(env),
            is_vertex=is_vertex,
            project=project,
            location=(_value(env, "GOOGLE_CLOUD_LOCATION") or "global") if project else None,
            base_url=address,
        )

    @staticmethod
    def why_not(env: Mapping[str, str]) -> str:
        """Say what is missing for using Gemini, and how to mend it; empty when nothing is."""
        key = _key(env)
        if key and not re.fullmatch(r"[!-~]+", key):
            return "GEMINI_API_KEY holds characters that no key has: copy it again"
        if _flag(env, "GOOGLE_GENAI_USE_VERTEXAI") and not (_value(env, "GOOGLE_CLOUD_PROJECT") or key):
            return "GOOGLE_GENAI_USE_VERTEXAI is set without a project: set GOOGLE_CLOUD_PROJECT"
        return "" if key or _flag(env, "GOOGLE_GENAI_USE_VERTEXAI") else _NO_KEY


class GeminiModel:
    """A ``ChatModel``. Safe to share: thousands of calls may be under way at once."""

    def __init__(self, access: GeminiAccess, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Use ``access``; a call that is not answered in full within ``timeout_s`` is given up."""
        self._access = access
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._opening = threading.Lock()

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's next message; ask it again when it made a call that cannot be read, or said nothing.

        Raises:
            ModelUnavailable: no answer in time, overload, rate limit, broken connection.
            MalformedCall: the second call cannot be read either.
            ModelError: in its other classes, what no other try would mend.
        """
        asked, usage = request, Usage()
        corrections = 0
        while True:
            reading = await self._call(asked, on_delta)
            finish, usage = reading.finish, usage + reading.usage
            if corrections >= _CORRECTIONS.get(finish, 0):
                break
            corrections += 1
            asked = replace(request, messages=(*request.messages, user_message(_note(finish, reading, request))))
            if on_delta is not None:
                on_delta(Delta("", restart=True))
        if finish == "malformed_call":
            raise MalformedCall(
                f"Model {request.model!r} made a tool call that cannot be read, and again when corrected"
            )
        return _reply(request, reading, finish, usage)

    async def model_names(self) -> list[str]:
        """Return the models that this key may use, by name. Raises what ``reply`` raises."""
        return await (await self._connected()).model_names()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        if self._connection is not None:
            await self._connection.aclose()

    async def _call(self, request: ModelRequest, on_delta: OnDelta | None) -> "Reading":
        """Make one call within our own deadline: the client's is per read, and a dripping stream outlives it."""
        connection = await self._connected()
        try:
            async with asyncio.timeout(self._timeout_s) as scope:
                return await connection.ask(request, on_delta)
        except TimeoutError:
            if not scope.expired():
                raise
            raise ModelUnavailable(
                f"Model {request.model!r} did not answer within {self._timeout_s:g} s (model_timeout_s)"
            ) from None

    async def _connected(self) -> "Connection":
        if self._connection is None:
            await asyncio.to_thread(self._open)  # a second of importing must not stop the loop that renews leases
        assert self._connection is not None
        return self._connection

    def _open(self) -> None:
        with self._opening:
            if self._connection is not None:
                return
            from shared.llm.genai.connection import Connection

            access = self._access
            self._connection = Connection(
                api_key=access.api_key,
                is_vertex=access.is_vertex,
                project=access.project,
                location=access.location,
                base_url=access.base_url,
                credentials=access.credentials,
            )


def _reply(request: ModelRequest, reading: "Reading", finish: FinishReason, usage: Usage) -> ModelReply:
    """Make the reply. The message carries the name that was asked for: its signatures are valid under that name."""
    message = Message(role="model", parts=tuple(reading.parts), model=request.model)
    if finish == "refused":
        message = message.model_copy(update={"parts": tuple(part for part in message.parts if part.kind != "call")})
    detail = "" if finish == "stop" else reading.detail
    return ModelReply(message=message, finish=finish, usage=usage, model=reading.model or request.model, detail=detail)


def _note(finish: FinishReason, reading: "Reading", request: ModelRequest) -> str:
    names = ", ".join(tool.name for tool in request.tools)
    tools = f" The tools are: {names}." if names else " You have no tools: answer in text."
    return _NOTES[finish].format(detail=reading.detail[:_MAX_DETAIL], tools=tools)


def _service(is_vertex: bool) -> str:
    return "VERTEX" if is_vertex else "GEMINI"


def _key(env: Mapping[str, str]) -> str | None:
    return _value(env, "GEMINI_API_KEY") or _value(env, "GOOGLE_API_KEY")


def _flag(env: Mapping[str, str], name: str) -> bool:
    return (_value(env, name) or "").lower() in ("1", "true", "yes", "on")


def _value(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None
