"""Gemini as a ``ChatModel``: through AI Studio with a key, or through Vertex AI.

google-genai takes a second to import: it is loaded, in a thread, by the first call.
"""

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from ekiden.shared.errors import MalformedCall, ModelUnavailable
from ekiden.shared.llm.base import Delta, FinishReason, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.schema import wire_name
from ekiden.shared.messages import Message, Usage, user_message

if TYPE_CHECKING:
    from ekiden.shared.llm.genai.connection import Connection
    from ekiden.shared.llm.genai.replies import ReplyReader

__all__ = ["DEFAULT_TIMEOUT_S", "GeminiModel"]

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
        """Close the connections; a later call opens new ones."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _call(self, request: ModelRequest, on_delta: OnDelta | None) -> "ReplyReader":
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
        """Open the connection, once; in a thread: a second of importing must not stop the loop that renews leases."""
        if self._connection is not None:
            return self._connection
        return await asyncio.to_thread(self._open)

    def _open(self) -> "Connection":
        with self._opening:
            if (connection := self._connection) is None:
                from ekiden.shared.llm.genai.connection import Connection

                connection = self._connection = Connection(self._access)
            return connection


def _reply(request: ModelRequest, reading: "ReplyReader", finish: FinishReason, usage: Usage) -> ModelReply:
    """Make the reply. The message carries the name that was asked for: its signatures are valid under that name."""
    message = Message(role="model", parts=tuple(reading.parts), model=request.model)
    if finish == "refused":
        message = message.model_copy(update={"parts": tuple(part for part in message.parts if part.kind != "call")})
    detail = "" if finish == "stop" else reading.detail
    return ModelReply(message=message, finish=finish, usage=usage, model=reading.model or request.model, detail=detail)


def _note(finish: FinishReason, reading: "ReplyReader", request: ModelRequest) -> str:
    names = ", ".join(wire_name(tool.name) for tool in request.tools)
    tools = f" The tools are: {names}." if names else " You have no tools: answer in text."
    return _NOTES[finish].format(detail=reading.detail[:_MAX_DETAIL], tools=tools)
