"""A ``ChatModel`` behind a wire: what is the same for every provider, whatever its words and its client.

That is our own deadline (clients count from read to read, which a dripping stream outlives), one client for the
process that is made by the first call, in a thread (they take a second to import, and the loop renews leases), and
asking again where an answer cannot be used as it is.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ekiden.shared.errors import MalformedCall, ModelUnavailable, RequestRefused
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import Delta, FinishReason, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.schema import wire_name
from ekiden.shared.llm.structured import as_call, as_text, quiet
from ekiden.shared.messages import Message, Part, ToolCall, Usage, user_message

__all__ = ["DEFAULT_TIMEOUT_S", "Reading", "WireConnection", "WireModel"]

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

log = LateLogger(__name__)


class Reading(Protocol):
    """What has been read of one answer."""

    @property
    def parts(self) -> list[Part]:
        """Texts and calls, in order. A call that nobody can read may be among them, with its ``problem``."""
        ...

    @property
    def finish(self) -> FinishReason:
        """Why the answer ended. Raises ``ModelUnavailable`` where it has no end."""
        ...

    @property
    def detail(self) -> str:
        """What the provider said of the end, for people."""
        ...

    @property
    def usage(self) -> Usage:
        """The tokens of the call; thoughts are output."""
        ...

    @property
    def served_by(self) -> str:
        """The model that answered; empty: nobody said so."""
        ...


class WireConnection(Protocol):
    """One client of a provider. Serves any number of calls at once, on any event loop."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None) -> Reading:
        """Make one call: streamed if somebody listens, whole if not. Raises ``ModelError``."""
        ...

    async def model_names(self) -> list[str]:
        """Return the models that may be asked, by name. Raises ``ModelError``."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class WireModel:
    """A ``ChatModel``. Safe to share: thousands of calls may be under way at once."""

    def __init__(
        self,
        connect: Callable[[], WireConnection],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        takes_schema: bool = False,
    ) -> None:
        """Call ``connect`` once, in a thread; a call that is not answered in full within ``timeout_s`` is given up.

        ``takes_schema``: its models may be asked for an answer that fits a schema (``ModelRequest.output``).
        """
        self._connect = connect
        self._takes_schema = takes_schema
        self._no_schema: set[str] = set()
        """Models that have refused one."""
        self._timeout_s = timeout_s
        self._connection: WireConnection | None = None
        self._opening = threading.Lock()

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's next message; ask it again when it made a call that cannot be read, or said nothing.

        Raises:
            ModelUnavailable: no answer in time, overload, rate limit, broken connection.
            MalformedCall: the second call cannot be read either, nor be answered with what is wrong with it.
            ModelError: in its other classes, what no other try would mend.
        """
        if not self._may_write(request):
            return await self._reply(request, on_delta)
        try:
            return await self._written(request, on_delta)
        except RequestRefused as error:
            reply = await self._reply(request, on_delta)
            self._no_schema.add(request.model)
            log.warning("schema_refused", model=request.model, problem=str(error))
            return reply

    def _may_write(self, request: ModelRequest) -> bool:
        """Tell whether the model is asked to write its answer by a schema, instead of calling its only tool."""
        is_alone = [tool.name for tool in request.tools] == [request.answer_as]
        return self._takes_schema and is_alone and request.model not in self._no_schema

    async def _written(self, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        reply = await self._reply(as_text(request), on_delta and quiet(on_delta))
        if reply.finish != "stop" or reply.message.calls:
            return reply
        message = reply.message.model_copy(update={"parts": tuple(as_call(reply.message.parts, request))})
        return reply.model_copy(update={"message": message})

    async def _reply(self, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
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
            if not _has_readable_shape(reading):
                raise MalformedCall(
                    f"Model {request.model!r} made a tool call that cannot be read, and again when corrected"
                )
            finish = "stop"
        return _reply(request, reading, finish, usage)

    async def model_names(self) -> list[str]:
        """Return the models that may be used, by name. Raises what ``reply`` raises."""
        return await (await self._connected()).model_names()

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _call(self, request: ModelRequest, on_delta: OnDelta | None) -> Reading:
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

    async def _connected(self) -> WireConnection:
        if self._connection is not None:
            return self._connection
        return await asyncio.to_thread(self._open)

    def _open(self) -> WireConnection:
        with self._opening:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection


def _has_readable_shape(reading: Reading) -> bool:
    """Tell whether calls that nobody can carry out are there all the same, to be answered with their problem."""
    return any(isinstance(part, ToolCall) and part.problem for part in reading.parts)


def _reply(request: ModelRequest, reading: Reading, finish: FinishReason, usage: Usage) -> ModelReply:
    """Make the reply. The message carries the name that was asked for: its signatures are valid under that name."""
    message = Message(role="model", parts=tuple(reading.parts), model=request.model)
    if finish == "refused":
        message = message.model_copy(update={"parts": tuple(part for part in message.parts if part.kind != "call")})
    detail = "" if finish == "stop" else reading.detail
    model = reading.served_by or request.model
    return ModelReply(message=message, finish=finish, usage=usage, model=model, detail=detail)


def _note(finish: FinishReason, reading: Reading, request: ModelRequest) -> str:
    names = ", ".join(wire_name(tool.name) for tool in request.tools)
    tools = f" The tools are: {names}." if names else " You have no tools: answer in text."
    return _NOTES[finish].format(detail=reading.detail[:_MAX_DETAIL], tools=tools)
