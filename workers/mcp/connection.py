"""One server in one process: a task that owns its session, opens it when somebody calls, and anew when it has died."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client as McpClient
from mcp import MCPError
from pydantic import TypeAdapter

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.mcp.entries import ServerEntry, filled
from ekiden.shared.version import VERSION
from ekiden.workers.mcp.discovery import discovered
from ekiden.workers.mcp.failures import (
    CONNECT_S,
    McpFailure,
    NotReached,
    StateRefused,
    Unanswered,
    cause_of,
    innermost,
    shown,
)
from ekiden.workers.mcp.listing import Listing
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.stdio import LastWords
from ekiden.workers.mcp.transports import transport_to

__all__ = ["Connection"]

IDLE_S = 600.0
"""How long a server that nobody calls is kept."""
_LOOK_S = 1.0
"""Between two looks whether nobody calls any more."""
_AGAIN_S = 0.25
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 10.0
"""A session that has held so long is opened anew at once; one that falls again and again waits longer each time."""
_RESOURCE: TypeAdapter[Any] = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)

T = TypeVar("T")
Progress = Callable[[float, float | None, str | None], Any]

log = LateLogger(__name__)


class Connection:
    """Lives on one loop; what it is asked, it is asked there."""

    def __init__(
        self, name: str, entry: ServerEntry, environ: Mapping[str, str], starter: Starter, idle_s: float = IDLE_S
    ) -> None:
        """``environ``: what fills in variables; ``starter``: starts a program."""
        self.name = name
        self._entry = entry
        self._environ = environ
        self._starter = starter
        self._idle_s = idle_s
        self._client: McpClient | None = None
        self._owner: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._lost = asyncio.Event()
        self._running = 0
        self._used_at = 0.0
        self._pause_s = _AGAIN_S
        self._held_from = math.inf
        self._events = entry.transport == "sse"
        """Whether the older way is tried next."""
        self.listing = Listing()
        self.problem = ""
        """Why it is not there; empty: it is, or nobody has asked yet."""
        self.opened = 0
        """How often its session was opened."""

    @property
    def is_open(self) -> bool:
        """Whether a session stands."""
        return self._client is not None

    async def open(self, within_s: float = CONNECT_S) -> Listing:
        """Return what the server offers, once its session stands. Raises ``NotReached``."""
        await self._session(within_s)
        return self.listing

    async def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        progress: Progress | None = None,
        answers: Mapping[str, types.InputResponse] | None = None,
        state: str | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. Raises ``McpFailure``, and ``NotReached`` where nothing was called."""

        async def ask(client: McpClient) -> Any:
            return await client.session.call_tool(
                tool,
                dict(args),
                self._entry.timeout_s,
                _told(progress),
                input_responses=dict(answers) if answers else None,
                request_state=state,
                allow_input_required=True,
            )

        return await self._do(tool, ask, is_anew=state is None)

    async def read(
        self, uri: str, answers: Mapping[str, types.InputResponse] | None = None, state: str | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Read a resource, as if a tool had returned it. Raises what ``call`` does."""

        async def ask(client: McpClient) -> Any:
            params = types.ReadResourceRequestParams(
                uri=uri, input_responses=dict(answers) if answers else None, request_state=state
            )
            request = types.ReadResourceRequest(params=params)
            result = await client.session.send_request(request, _RESOURCE, self._entry.timeout_s)
            if isinstance(result, types.InputRequiredResult):
                return result
            return types.CallToolResult(content=[types.EmbeddedResource(resource=one) for one in result.contents])

        return await self._do(uri, ask, is_anew=state is None)

    async def prompt(self, name: str, args: Mapping[str, str]) -> types.GetPromptResult:
        """Have a prompt written. Raises what ``call`` does."""
        params = types.GetPromptRequestParams(name=name, arguments=dict(args))
        request = types.GetPromptRequest(params=params)
        return await self._do(
            name,
            lambda client: client.session.send_request(request, types.GetPromptResult, self._entry.timeout_s),
        )

    async def close(self) -> None:
        """End the session, and the server if it is a program of ours."""
        if self._owner is not None:
            self._owner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._owner
            self._owner = None

    async def _do(self, what: str, ask: Callable[[McpClient], Awaitable[T]], *, is_anew: bool = True) -> T:
        client = await self._session(CONNECT_S)
        self._running += 1
        try:
            return await ask(client)
        except MCPError as error:
            if not is_anew and error.code == types.INVALID_PARAMS:
                raise StateRefused(shown(error.message)) from None
            raise self._failure(error, what, client) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A transport that dies takes its callers along.
            raise self._died(what, client) from None
        except Exception as error:
            raise McpFailure(
                f"the MCP server {self.name!r} gave no proper result of {what!r}: {cause_of(error)}"
            ) from None
        finally:
            self._running -= 1
            self._used_at = time.monotonic()

    def _failure(self, error: MCPError, tool: str, client: McpClient) -> McpFailure:
        if error.code == types.REQUEST_TIMEOUT:
            return Unanswered(
                f"{tool!r} of the MCP server {self.name!r} gave no result in {self._entry.timeout_s:g} s; "
                "what it did is unknown"
            )
        if error.code == types.CONNECTION_CLOSED:
            return self._died(tool, client)
        return McpFailure(f"the MCP server {self.name!r} refused {tool!r}: {shown(error.message)} ({error.code})")

    def _died(self, tool: str, client: McpClient) -> McpFailure:
        if self._client is client:
            self._has_ended()
        return Unanswered(f"the MCP server {self.name!r} was lost while {tool!r} ran; what it did is unknown")

    def _has_ended(self) -> None:
        self._client = None  # at once: to leave a dead session takes up to two seconds
        self._lost.set()

    async def _session(self, within_s: float) -> McpClient:
        self._running += 1  # who waits for a session is no reason to end it
        try:
            return await self._opened(within_s)
        finally:
            self._running -= 1
            self._used_at = time.monotonic()

    async def _opened(self, within_s: float) -> McpClient:
        if self._owner is None or self._owner.done():
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")
        ends = time.monotonic() + within_s
        while self._client is None:
            left = ends - time.monotonic()
            if left <= 0 or self._owner.done() or (self.problem and self._pause_s > 4 * _AGAIN_S):
                raise NotReached(f"the MCP server {self.name!r} is not there: {self.problem or 'it does not answer'}")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return self._client

    async def _own(self) -> None:
        """Keep a session, in this task alone: anyio refuses to leave it in another one than has entered it."""
        while True:
            self._lost = asyncio.Event()
            words, self._held_from = LastWords(), math.inf
            try:
                if await self._keep(words):
                    return
                self._fell("its session was lost")
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                self._fell("its session was lost")
            except (Exception, BaseExceptionGroup) as error:
                first = innermost(error)
                self._fell(cause_of(first, str(words)))
                if isinstance(first, ConfigurationError | FileNotFoundError | PermissionError):
                    return  # it is looked for anew when somebody asks for it again
            finally:
                self._client = None
                self._changed.set()
            if self._is_idle():
                return
            if time.monotonic() - self._held_from > _STEADY_S:
                self._pause_s = _AGAIN_S
            self._events = self._events != (self._entry.transport == "either")
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)

    def _fell(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("mcp_server", server=self.name, problem=problem)
        self.problem = problem

    async def _keep(self, words: LastWords) -> bool:
        """Open the session and keep it until it is lost, or idle; tell whether it was idle."""
        entry = filled(self._entry, self._environ)
        dropped: dict[str, str] = {}
        async with asyncio.timeout(CONNECT_S) as limit:
            way = transport_to(entry, self._starter, words, dropped, self._has_ended, events=self._events)
            async with _client(way) as client:
                self.listing = await discovered(client, entry.expect, dropped)
                limit.reschedule(None)
                self._client, self.problem, self._held_from = client, "", time.monotonic()
                self.opened += 1
                self._changed.set()
                return await self._until_idle()

    def _is_idle(self) -> bool:
        """Tell whether nobody has called for long; one that was to be there from the start never is."""
        is_unused = not self._running and time.monotonic() - self._used_at > self._idle_s
        return is_unused and not self._entry.auto_start

    async def _until_idle(self) -> bool:
        while True:
            if self._is_idle():
                return True
            left = self._used_at + self._idle_s - time.monotonic()
            try:
                await asyncio.wait_for(self._lost.wait(), max(left, _LOOK_S))
                return False
            except TimeoutError:
                continue


def _client(way: Any) -> McpClient:
    return McpClient(
        way,
        read_timeout_seconds=CONNECT_S / 2,
        client_info=types.Implementation(name="ekiden", version=VERSION),
        elicitation_callback=_nobody_is_asked,
        cache=None,
    )


async def _nobody_is_asked(context: Any, params: Any) -> types.ElicitResult:
    """Answer a question that a server of the older protocol asks in the middle of a call: a worker waits for nobody."""
    return types.ElicitResult(action="cancel")


def _told(progress: Progress | None) -> Any:
    if progress is None:
        return None

    async def tell(done: float, total: float | None, message: str | None) -> None:
        progress(done, total, message)

    return tell
