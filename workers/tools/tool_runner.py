"""The one way to run a tool: whatever happens behind the gate, the model gets one answer."""

import asyncio
import contextvars
import inspect
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError

from ekiden.shared.errors import ToolError
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.redaction import redact
from ekiden.shared.storable import storable
from ekiden.shared.suggestions import nearest
from ekiden.workers.tools.base import Tool, ToolContext

__all__ = ["ToolRunner"]

_MAX_CHARS = 100_000
_MAX_PROBLEMS = 10
_MAX_INPUT_CHARS = 60

_log = structlog.get_logger(__name__)


class ToolRunner:
    """Runs calls of the tools given to it: checks arguments, keeps synchronous tools off the event loop, never raises.

    One gate per process owns the threads; ``only`` narrows it to the tools that an agent is offered, so that a model
    cannot call what it was not shown.
    """

    def __init__(self, tools: Iterable[Tool], threads: int | ThreadPoolExecutor = 8) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._threads = ThreadPoolExecutor(threads, "tool") if isinstance(threads, int) else threads

    def only(self, tools: Iterable[Tool]) -> "ToolRunner":
        """Return a gate for these tools alone that shares the threads of this one."""
        return ToolRunner(tools, self._threads)

    def close(self) -> None:
        """Give up the threads; calls that have not begun are dropped, running ones are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call and return its result, an error result included; only a cancellation gets out.

        A cancelled synchronous tool goes on in its thread: its outcome is unknown, as after a crash.
        """
        began = time.monotonic()
        content, is_error = await self._answer(call, context)
        _log.debug("tool ran", tool=call.name, is_error=is_error, duration_s=round(time.monotonic() - began, 4))
        return ToolResult(call_id=call.id, name=call.name, content=_shortened(storable(content)), is_error=is_error)

    async def _answer(self, call: ToolCall, context: ToolContext) -> tuple[str, bool]:
        try:
            tool = self._tool(call.name)
            return await self._run(tool, _validated(tool, call.args), context), False
        except ToolError as error:
            return str(error), True
        except (Exception, SystemExit) as error:
            _log.exception("tool failed unexpectedly", tool=call.name, job=context.job, leg=context.leg)
            said = redact(str(error))  # it may speak of what the worker knows
            return f"the tool {call.name!r} failed unexpectedly: {type(error).__name__}: {said}", True

    def _tool(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        near = nearest(name, self._tools)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        offered = ", ".join(sorted(self._tools)) or "none"
        raise ToolError(f"there is no tool {_shortened(name, _MAX_INPUT_CHARS)!r}: {hint}offered are {offered}")

    async def _run(self, tool: Tool, args: BaseModel, context: ToolContext) -> str:
        if tool.is_async:
            outcome = tool.function(args, context)
        else:
            # The caller's context goes along, so that its log fields and its trace span are known in the thread.
            run = contextvars.copy_context().run
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, run, _call, tool, args, context)
        text = await outcome if inspect.isawaitable(outcome) else outcome
        if not isinstance(text, str):
            raise TypeError(f"a tool must return text, not {type(text).__name__}")
        return text


def _call(tool: Tool, args: BaseModel, context: ToolContext) -> Any:
    try:
        return tool.function(args, context)
    except StopIteration as error:
        # No asyncio future can carry it: before Python 3.12 the caller would wait for ever.
        raise RuntimeError("StopIteration") from error


def _validated(tool: Tool, args: Any) -> BaseModel:
    try:
        return tool.arguments.model_validate(args)
    except ValidationError as error:
        raise ToolError(_explained(tool, args, error)) from error


def _explained(tool: Tool, args: Any, error: ValidationError) -> str:
    fields = tool.arguments.model_fields
    lines = [f"the arguments of {tool.name!r} are not valid:"]
    if isinstance(args, dict):
        lines += [_problem(problem) for problem in error.errors(include_url=False)[:_MAX_PROBLEMS]]
        lines += [f"- {name}: not an argument of this tool" for name in args if name not in fields][:_MAX_PROBLEMS]
    else:
        lines.append(f"- expected an object, got {type(args).__name__}")
    wanted = [name if field.is_required() else f"{name} (optional)" for name, field in fields.items()]
    return "\n".join([*lines, f"expected: {', '.join(wanted) or 'no arguments'}"])


def _problem(problem: Any) -> str:
    path = ".".join(map(str, problem["loc"])) or "arguments"
    if problem["type"] == "missing":
        return f"- {path}: is required"
    return f"- {path}: {problem['msg']}, got {_shortened(repr(problem['input']), _MAX_INPUT_CHARS)}"


def _shortened(text: str, limit: int = _MAX_CHARS) -> str:
    return text if len(text) <= limit else f"{text[:limit]} (cut: the first {limit:,} of {len(text):,} characters)"
