"""A model and a gate that are watched: the same protocols, with a span round each call."""

import time
from contextlib import nullcontext
from typing import Any, Protocol

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import ChatModel, Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.settings import TracingEvent
from ekiden.shared.telemetry import names
from ekiden.shared.telemetry.base import RunsTools
from ekiden.shared.telemetry.content import Content
from ekiden.shared.telemetry.harmless import harmless
from ekiden.shared.telemetry.metrics import Meters
from ekiden.shared.telemetry.spans import Span, SpanKind, Spans

__all__ = ["TracedModel", "TracedToolRunner"]


class Watch(Protocol):
    """Where the spans of calls belong."""

    @property
    def agent(self) -> str:
        """Who calls."""
        ...

    def begin(
        self, event: TracingEvent, name: str, attributes: dict[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> Span | None:
        """Begin a span below the agent's; None: nobody wants it."""
        ...

    def write(self, span: Span) -> object:
        """Hand over a span that ends now."""
        ...

    def tool_name(self, name: str) -> str:
        """Return a tool's name as it may leave."""
        ...


class TracedModel:
    """A ``ChatModel`` that tells of its calls."""

    def __init__(self, model: ChatModel, watch: Watch, meters: Meters | None, content: Content | None) -> None:
        self._model = model
        self._watch = watch
        self._meters = meters
        self._content = content

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply, or let its failure pass."""
        span = self._begun(request, is_stream=on_delta is not None)
        told = _Deltas(on_delta, span) if on_delta is not None else None
        began, error = time.monotonic(), None
        try:
            reply = await self._model.reply(request, told)
        except BaseException as raised:
            error = type(raised).__qualname__
            if span is not None:
                span.raised(raised)
                if isinstance(raised, ModelUnavailable) and raised.retry_after_s is not None:
                    span.attributes["ekiden.model.retry_after_s"] = raised.retry_after_s
            raise
        else:
            self._answered(span, reply)
            return reply
        finally:
            if self._meters is not None:
                self._meters.model_called(self._watch.agent, request.model, time.monotonic() - began, error)
            if span is not None:
                self._watch.write(span)

    @harmless
    def _begun(self, request: ModelRequest, *, is_stream: bool) -> Span | None:
        operation = names.operation_of(request.model)
        attributes: dict[str, Any] = {
            names.OPERATION: operation,
            names.PROVIDER: names.provider_of(request.model),
            names.REQUEST_MODEL: request.model,
        }
        if is_stream:
            attributes[names.STREAM] = True
        if request.temperature is not None:
            attributes[names.TEMPERATURE] = request.temperature
        span = self._watch.begin("llm", f"{operation} {request.model}", attributes, SpanKind.CLIENT)
        if span is not None and self._content is not None:
            span.attributes |= self._content.request(request)
        return span

    @harmless
    def _answered(self, span: Span | None, reply: ModelReply) -> None:
        if span is None:
            return
        span.attributes |= {
            names.RESPONSE_MODEL: reply.model,
            names.FINISH_REASONS: (reply.finish,),
            names.INPUT_TOKENS: reply.usage.input_tokens,
            names.OUTPUT_TOKENS: reply.usage.output_tokens,
            **(self._content.reply(reply) if self._content else {}),
        }


class _Deltas:
    """Passes deltas on; notes when the first one comes, and when an answer begins anew."""

    def __init__(self, on_delta: OnDelta, span: Span | None) -> None:
        self._on_delta = on_delta
        self._span = span

    def __call__(self, delta: Delta) -> None:
        if self._span is not None:
            if delta.restart:
                self._span.event("ekiden.retry", {})
            elif names.FIRST_CHUNK not in self._span.attributes:
                self._span.attributes[names.FIRST_CHUNK] = (time.time_ns() - self._span.began_ns) / 1e9
        self._on_delta(delta)


class TracedToolRunner:
    """Runs tool calls through another gate, each in a span that is current while it runs."""

    def __init__(self, tool_runner: RunsTools, watch: Watch, spans: Spans | None, content: Content | None) -> None:
        self._gate = tool_runner
        self._watch = watch
        self._spans = spans
        self._content = content

    async def run(self, call: ToolCall, context: Any) -> ToolResult:
        """Run one call and return its result; only a cancellation gets out."""
        span = self._begun(call)
        if span is None:
            return await self._gate.run(call, context)
        try:
            with self._spans.current(span) if self._spans else nullcontext():
                result = await self._gate.run(call, context)
            self._ended(span, result)
            return result
        except BaseException as error:
            span.raised(error)
            raise
        finally:
            self._watch.write(span)

    @harmless
    def _begun(self, call: ToolCall) -> Span | None:
        tool = self._watch.tool_name(call.name)
        attributes = {
            names.OPERATION: "execute_tool",
            names.TOOL: tool,
            names.TOOL_TYPE: "function",
            names.CALL_ID: call.id,
            **(self._content.arguments(call) if self._content else {}),
        }
        return self._watch.begin("tool", f"execute_tool {tool}", attributes)

    @harmless
    def _ended(self, span: Span, result: ToolResult) -> None:
        if result.is_error:
            span.fail("tool_error")
        if self._content:
            span.attributes |= self._content.result(result)
