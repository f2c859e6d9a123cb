"""The one way to run a tool: whatever happens in the tool, the model gets one answer."""

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import structlog

from ekiden.shared.errors import OutcomeUnknown, ToolError
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.redaction import redact
from ekiden.shared.step_limits import run_limited
from ekiden.shared.storable import MAX_DEPTH, nests_too_deep, storable
from ekiden.shared.suggestions import nearest
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput, ToolQuestion
from ekiden.workers.tools.keeping import fitted, kept
from ekiden.workers.tools.parsing import shortened
from ekiden.workers.tools.threads import ToolThreads

__all__ = ["CHECK_FIRST", "ToolRunner"]

CHECK_FIRST = "Check what it did before you repeat it."
"""Ends what a model is told of a call of which nobody knows what it did."""

UNAUTHORIZED = "Unauthorized tool call"
"""Begins what a model is told of a call outside its agent's tools."""

_MAX_CHARS = 100_000
_MAX_INPUT_CHARS = 60
_TIMEOUT_S = 600.0

_log = structlog.get_logger(__name__)


class ToolRunner:
    """Runs calls of the tools given to it: checks arguments, keeps synchronous tools off the event loop, never raises.

    One runner per process owns the threads; ``only`` narrows it to the tools that an agent is offered, so that a model
    cannot call what it was not shown.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        threads: int | ToolThreads = 8,
        offered: Callable[[], Iterable[str]] | None = None,
        *,
        timeout_s: float = _TIMEOUT_S,
        known: Iterable[str] = (),
    ) -> None:
        """Make a runner.

        Args:
            tools: What it runs.
            threads: How many synchronous ones at a time.
            offered: The names of all that the model is offered now, where that is more than these tools.
            timeout_s: Seconds until a call is given up, where its tool says nothing.
            known: Names of tools that there are and that this agent does not have.
        """
        self._tools = {tool.name: tool for tool in tools}
        self._offered = offered or self._tools.keys
        self._threads = ToolThreads(threads) if isinstance(threads, int) else threads
        self._timeout_s = timeout_s
        self._known = frozenset(known).union(self._tools)

    def only(self, tools: Iterable[Tool], offered: Callable[[], Iterable[str]] | None = None) -> "ToolRunner":
        """Return a runner for these tools alone that shares the threads of this one."""
        return ToolRunner(tools, self._threads, offered, timeout_s=self._timeout_s, known=self._known)

    @property
    def stuck(self) -> int:
        """How many calls of synchronous tools were given up and still run."""
        return self._threads.stuck

    def check(self, call: ToolCall) -> None:
        """Raise ``ToolError``, with a text for the model, unless the tool may be called, and with these arguments."""
        self._tool(call.name).parse(call.args)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call and return its result, an error result included; only a cancellation gets out.

        A synchronous tool that is cancelled, or given up, goes on in its thread: its outcome is unknown, as after a
        crash.
        """
        began = time.monotonic()
        output, error = await self._answer(call, context)
        _log.debug(
            "tool ran", tool=call.name, is_error=error is not None, duration_s=round(time.monotonic() - began, 4)
        )
        result = await self.said(call, output.text, context)
        artifacts, told = await kept(context.running.artifacts, context.outputs)
        how = {
            "content": "\n".join(filter(None, (result.content, told))),
            "is_error": error is not None,
            "is_unknown": isinstance(error, OutcomeUnknown),
            "data": output.data,
            "artifacts": tuple(artifacts),
        }
        return result.model_copy(update=how)

    async def said(self, call: ToolCall, text: str, context: ToolContext) -> ToolResult:
        """Return the result of a call that gave ``text``, as far as a model is given it."""
        most = self._tools[call.name].max_chars if call.name in self._tools else _MAX_CHARS
        content, whole = await fitted(storable(text), most, context.outputs)
        return ToolResult(call_id=call.id, name=call.name, content=content, whole=whole)

    async def _answer(self, call: ToolCall, context: ToolContext) -> tuple[ToolOutput, BaseException | None]:
        try:
            tool = self._tool(call.name)
            args = await run_limited(partial(tool.parse, call.args))
            return _kept(await self._run(tool, args, context)), None
        except ToolError as error:
            return ToolOutput(str(error)), error
        except ToolQuestion:
            raise
        except asyncio.CancelledError:  # also one from within: what is said of that is the pipeline's
            raise
        except BaseException as error:
            if is_interruption_of_task(error):
                raise
            _log.exception("tool failed unexpectedly", tool=call.name, job=context.job, leg=context.leg)
            said = redact(said_by(error))  # it may speak of what the worker knows
            return ToolOutput(f"the tool {call.name!r} failed unexpectedly: {type(error).__name__}: {said}"), error

    def _tool(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        names = sorted(self._offered())
        offered = f"offered are {', '.join(names)}" if names else "this agent is offered none"
        shown = repr(shortened(name, _MAX_INPUT_CHARS))
        if name in self._known:
            raise ToolError(f"{UNAUTHORIZED}. Tool not allowed for this agent: {shown}; {offered}")
        near = nearest(name, names)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ToolError(f"{UNAUTHORIZED}: there is no tool {shown}: {hint}{offered}")

    async def _run(self, tool: Tool, args: Any, context: ToolContext) -> Any:
        """Run it for as long as it may, and let it know once nobody waits any more."""
        limit_s = tool.timeout_s or self._timeout_s
        call: Callable[[], Any] = partial(tool.function, args, context)
        try:
            if tool.is_async:
                return await _within(limit_s, tool.name, call())
            async with self._threads.running(call) as outcome:
                given = await _within(limit_s, tool.name, outcome)
            return await _within(limit_s, tool.name, given) if inspect.isawaitable(given) else given
        finally:
            context.running.cancel()


async def _within(limit_s: float, name: str, work: Awaitable[Any]) -> Any:
    """Return what ``work`` gives. Raises ``OutcomeUnknown`` once the time is over."""
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
    raise OutcomeUnknown(f"Outcome unknown: {name!r} was given up after {limit_s:g} s. {CHECK_FIRST}")


def _kept(given: Any) -> ToolOutput:
    """Return what a tool gave as a journal keeps it. Raises ``TypeError``, ``ValueError``: it cannot."""
    output = ToolOutput(given) if isinstance(given, str) else given
    if not isinstance(output, ToolOutput) or not isinstance(output.text, str):
        raise TypeError(f"a tool must return text, or a ToolOutput, not {type(given).__name__}")
    if output.data is None:
        return output
    written = json.dumps(output.data, ensure_ascii=False, allow_nan=False)
    if nests_too_deep(output.data):
        raise ValueError(f"its data has more than {MAX_DEPTH} levels of lists and objects")
    if len(written) <= _MAX_CHARS:
        return ToolOutput(output.text or written, storable(json.loads(written)))
    left_out = f"(its data is left out: {len(written):,} characters of JSON, at most {_MAX_CHARS:,} are kept)"
    return ToolOutput(f"{shortened(output.text or written, _MAX_CHARS)}\n{left_out}")
