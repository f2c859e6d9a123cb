"""The one way to run a tool: whatever happens in the tool, the model gets one answer."""

import asyncio
import contextvars
import inspect
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import structlog

from ekiden.shared.errors import ToolError
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.redaction import redact
from ekiden.shared.step_limits import run_limited
from ekiden.shared.storable import MAX_DEPTH, nests_too_deep, storable
from ekiden.shared.suggestions import nearest
from ekiden.workers.tools.base import Tool, ToolContext, ToolOutput
from ekiden.workers.tools.parsing import shortened

__all__ = ["ToolRunner"]

_MAX_CHARS = 100_000
_MAX_INPUT_CHARS = 60

_log = structlog.get_logger(__name__)


class ToolRunner:
    """Runs calls of the tools given to it: checks arguments, keeps synchronous tools off the event loop, never raises.

    One runner per process owns the threads; ``only`` narrows it to the tools that an agent is offered, so that a model
    cannot call what it was not shown.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        threads: int | ThreadPoolExecutor = 8,
        offered: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        """``offered``: the names of all that the model is offered now, where that is more than these tools."""
        self._tools = {tool.name: tool for tool in tools}
        self._offered = offered or self._tools.keys
        self._threads = ThreadPoolExecutor(threads, "tool") if isinstance(threads, int) else threads

    def only(self, tools: Iterable[Tool], offered: Callable[[], Iterable[str]] | None = None) -> "ToolRunner":
        """Return a runner for these tools alone that shares the threads of this one."""
        return ToolRunner(tools, self._threads, offered)

    def close(self) -> None:
        """Give up the threads; calls that have not begun are dropped, running ones are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call and return its result, an error result included; only a cancellation gets out.

        A cancelled synchronous tool goes on in its thread: its outcome is unknown, as after a crash.
        """
        began = time.monotonic()
        output, is_error = await self._answer(call, context)
        _log.debug("tool ran", tool=call.name, is_error=is_error, duration_s=round(time.monotonic() - began, 4))
        text = shortened(storable(output.text), _MAX_CHARS)
        return ToolResult(call_id=call.id, name=call.name, content=text, is_error=is_error, data=output.data)

    async def _answer(self, call: ToolCall, context: ToolContext) -> tuple[ToolOutput, bool]:
        try:
            tool = self._tool(call.name)
            args = await run_limited(partial(tool.parse, call.args))
            return _kept(await self._run(tool, args, context)), False
        except ToolError as error:
            return ToolOutput(str(error)), True
        except asyncio.CancelledError:  # also one from within: what is said of that is the pipeline's
            raise
        except BaseException as error:
            if is_interruption_of_task(error):
                raise
            _log.exception("tool failed unexpectedly", tool=call.name, job=context.job, leg=context.leg)
            said = redact(said_by(error))  # it may speak of what the worker knows
            return ToolOutput(f"the tool {call.name!r} failed unexpectedly: {type(error).__name__}: {said}"), True

    def _tool(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        names = sorted(self._offered())
        near = nearest(name, names)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        offered = f"offered are {', '.join(names)}" if names else "this agent is offered none"
        raise ToolError(f"there is no tool {shortened(name, _MAX_INPUT_CHARS)!r}: {hint}{offered}")

    async def _run(self, tool: Tool, args: Any, context: ToolContext) -> Any:
        if tool.is_async:
            outcome = tool.function(args, context)
        else:
            # The caller's context goes along, so that its log fields and its trace span are known in the thread.
            run = contextvars.copy_context().run
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, run, _call, tool, args, context)
        return await outcome if inspect.isawaitable(outcome) else outcome


def _call(tool: Tool, args: Any, context: ToolContext) -> Any:
    try:
        return tool.function(args, context)
    except StopIteration as error:
        # No asyncio future can carry it: before Python 3.12 the caller would wait for ever.
        raise RuntimeError("StopIteration") from error


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
