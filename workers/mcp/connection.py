"""One server in one process: a task that owns its session, opens it when somebody calls, and anew when it has died."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
import structlog
from mcp import Client, MCPError

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.foreign_code import said_by
from ekiden.shared.mcp.entries import ServerEntry, filled
from ekiden.shared.redaction import redact
from ekiden.shared.version import VERSION
from ekiden.workers.mcp.listing import ListedTool, Listing
from ekiden.workers.mcp.stdio import LastWords
from ekiden.workers.mcp.transports import transport_to

__all__ = ["Connection", "McpFailure", "NotReached", "StateRefused"]

CONNECT_S = 20.0
"""How long a server may take until its tools are listed."""
IDLE_S = 600.0
"""How long a server that nobody calls is kept."""
_AGAIN_S = 0.25
_LONGEST_PAUSE_S = 30.0
_MOST_TOOLS = 1_000
_LONGEST_NAME = 200
"""Characters of what a server calls itself."""
_LONGEST_DESCRIPTION = 4_000

Progress = Callable[[float, float | None, str | None], Any]

log = structlog.get_logger(__name__)


class McpFailure(Exception):
    """A call that brought no result; the text is for the model."""


class StateRefused(McpFailure):
    """The server does not know what it has asked any more: nothing was carried out."""


class NotReached(McpFailure):
    """The server is not there: nothing was called."""


class Connection:
    """Lives on one loop; what it is asked, it is asked there."""

    def __init__(
        self, name: str, entry: ServerEntry, environ: Mapping[str, str], env: Mapping[str, str], idle_s: float = IDLE_S
    ) -> None:
        """``environ``: what fills in variables; ``env``: what a program gets of it."""
        self.name = name
        self._entry = entry
        self._environ = environ
        self._env = env
        self._idle_s = idle_s
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._lost = asyncio.Event()
        self._running = 0
        self._used_at = 0.0
        self._pause_s = _AGAIN_S
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
        client = await self._session(CONNECT_S)
        self._running += 1
        try:
            return await self._call(client, tool, args, progress, answers, state)
        finally:
            self._running -= 1
            self._used_at = time.monotonic()

    async def close(self) -> None:
        """End the session, and the server if it is a program of ours."""
        if self._owner is not None:
            self._owner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._owner
            self._owner = None

    async def _call(
        self,
        client: Client,
        tool: str,
        args: Mapping[str, Any],
        progress: Progress | None,
        answers: Mapping[str, types.InputResponse] | None,
        state: str | None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            result = await client.session.call_tool(
                tool,
                dict(args),
                self._entry.timeout_s,
                _told(progress),
                input_responses=dict(answers) if answers else None,
                request_state=state,
                allow_input_required=True,
            )
        except MCPError as error:
            if state is not None and error.code == types.INVALID_PARAMS:
                raise StateRefused(_shown(error.message)) from None
            raise self._failure(error, tool, client) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A transport that dies takes its callers along.
            raise self._died(tool, client) from None
        except Exception as error:
            raise McpFailure(
                f"the MCP server {self.name!r} gave no proper result of {tool!r}: {_cause(error)}"
            ) from None
        assert isinstance(result, types.CallToolResult | types.InputRequiredResult)
        return result

    def _failure(self, error: MCPError, tool: str, client: Client) -> McpFailure:
        if error.code == types.REQUEST_TIMEOUT:
            return McpFailure(
                f"{tool!r} of the MCP server {self.name!r} gave no result in {self._entry.timeout_s:g} s; "
                "what it did is unknown"
            )
        if error.code == types.CONNECTION_CLOSED:
            return self._died(tool, client)
        return McpFailure(f"the MCP server {self.name!r} refused {tool!r}: {_shown(error.message)} ({error.code})")

    def _died(self, tool: str, client: Client) -> McpFailure:
        if self._client is client:
            self._client = None  # at once: to leave a dead session takes up to two seconds
            self._lost.set()
        return McpFailure(f"the MCP server {self.name!r} was lost while {tool!r} ran; what it did is unknown")

    async def _session(self, within_s: float) -> Client:
        self._used_at = time.monotonic()
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
            words = LastWords()
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
                first = _innermost(error)
                self._fell(_cause(first, str(words)))
                if isinstance(first, ConfigurationError | FileNotFoundError | PermissionError):
                    return  # it is looked for anew when somebody asks for it again
            finally:
                self._client = None
                self._changed.set()
            if time.monotonic() - self._used_at > self._idle_s:
                return
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
            way = transport_to(entry, self._env, words, dropped, events=self._events)
            async with _client(way) as client:
                self.listing = await self._listed(client, dropped)
                limit.reschedule(None)
                self._client, self.problem, self._pause_s = client, "", _AGAIN_S
                self.opened += 1
                self._changed.set()
                return await self._until_idle()

    async def _until_idle(self) -> bool:
        while True:
            left = self._used_at + self._idle_s - time.monotonic()
            if left <= 0 and not self._running:
                return True
            try:
                await asyncio.wait_for(self._lost.wait(), max(left, 1.0))
                return False
            except TimeoutError:
                continue

    async def _listed(self, client: Client, dropped: dict[str, str]) -> Listing:
        info = client.server_info
        self._expect(info)
        found, cursor = list[types.Tool](), None
        while len(found) < _MOST_TOOLS:
            page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        can = client.server_capabilities
        named = f"{info.name} {info.version}"[:_LONGEST_NAME] if info else ""
        return Listing(
            tuple(map(_described, found[:_MOST_TOOLS])),
            dropped,
            named,
            can.resources is not None,
            can.prompts is not None,
        )

    def _expect(self, info: types.Implementation | None) -> None:
        expected = self._entry.expect
        for what, wanted, found in (
            ("name", expected.name, info and info.name),
            ("version", expected.version, info and info.version),
        ):
            if wanted is not None and wanted != found:
                raise ConfigurationError(
                    f"it says that its {what} is {found!r}, where 'expect' demands {wanted!r}: nothing of it is used"
                )


def _described(tool: types.Tool) -> ListedTool:
    description = (tool.description or tool.title or tool.name)[:_LONGEST_DESCRIPTION]
    hints = tool.annotations or types.ToolAnnotations()
    return ListedTool(
        tool.name,
        description,
        tool.input_schema,
        only_reads=hints.read_only_hint is True,
        only_adds=hints.destructive_hint is False,
        idempotent=hints.idempotent_hint is True,
    )


def _client(way: Any) -> Client:
    return Client(
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


def _cause(error: BaseException, words: str = "") -> str:
    """Say what went wrong, with what the server last said itself."""
    error = _innermost(error)
    if isinstance(error, FileNotFoundError) and error.filename:
        text = f"there is no program {error.filename!r} here"
    elif isinstance(error, TimeoutError):
        text = f"it does not answer within {CONNECT_S:g} s"
    elif isinstance(error, ConfigurationError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {said_by(error)}"
    return _shown(f"{text}; it said: {words}" if words else text)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _shown(text: str) -> str:
    return redact(text)[:600]
