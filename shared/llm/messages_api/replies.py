"""An answer of the Messages API, event by event, as one reading."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import Delta, FinishReason, ModelRequest
from ekiden.shared.llm.call_arguments import read_arguments
from ekiden.shared.llm.call_ids import call_id
from ekiden.shared.llm.messages_api.contents import REDACTED
from ekiden.shared.llm.schema import WireNames
from ekiden.shared.messages import Part, TextPart, ToolCall, Usage

__all__ = ["ReplyReader"]

_CUT_OFF = ("max_tokens", "model_context_window_exceeded")
_LEFT_OUT = "[The model's reply has {what} besides, which cannot be shown here: left out.]"
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass
class _Block:
    kind: str
    id: str = ""
    name: str = ""
    text: str = ""
    """Its words, or the JSON of a call's arguments."""
    signature: str = ""


@dataclass
class ReplyReader:
    """What has been read of one answer. Feed it every event, then ask for ``finish``."""

    request: ModelRequest
    reason: str = ""
    served_by: str = ""
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _parts: list[Part] | None = None

    def add(self, event: Any) -> Iterator[Delta]:
        """Take one event in; yield what of it can be shown at once."""
        match event.type:
            case "message_start":
                self.served_by = event.message.model or ""
                self._count(event.message.usage)
            case "content_block_start":
                block = event.content_block
                data = getattr(block, "data", None)
                signature = f"{REDACTED}{data}" if data else ""
                self._blocks[event.index] = _Block(
                    block.type, getattr(block, "id", ""), getattr(block, "name", ""), signature=signature
                )
            case "content_block_delta" if event.index in self._blocks:
                yield from self._more(self._blocks[event.index], event.delta)
            case "message_delta":
                self.reason = event.delta.stop_reason or self.reason
                self._count(event.usage)

    @property
    def usage(self) -> Usage:
        """The tokens of the call; what a cache had is input."""
        *read, written = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(input_tokens=sum(read), output_tokens=written)

    @property
    def finish(self) -> FinishReason:
        """Why the answer ended. Raises ``ModelUnavailable`` where it has no end: the connection was cut."""
        if not self.reason:
            raise ModelUnavailable("The model's answer broke off before its end")
        if self.reason == "refusal":
            return "refused"
        calls = [part for part in self.parts if isinstance(part, ToolCall)]
        if self.reason in _CUT_OFF and (not calls or any(call.problem for call in calls)):
            return "max_tokens"
        if any(call.problem for call in calls):
            return "malformed_call"
        is_said = any(isinstance(part, TextPart) and not part.thought and part.text.strip() for part in self.parts)
        return "stop" if calls or is_said else "empty"

    @property
    def detail(self) -> str:
        """What the provider said of the end, for people."""
        problems = (part.problem for part in self.parts if isinstance(part, ToolCall) and part.problem)
        return next(problems, "") or self.reason

    @property
    def parts(self) -> list[Part]:
        """Thoughts, text and calls. To be asked for when all has been taken in."""
        if self._parts is None:
            self._parts = list(self._made())
        return self._parts

    def _count(self, usage: Any) -> None:
        self._counts |= {name: count for name in _COUNTS if (count := getattr(usage, name, None)) is not None}

    def _more(self, block: _Block, delta: Any) -> Iterator[Delta]:
        match delta.type:
            case "text_delta":
                block.text += delta.text
                yield Delta(delta.text)
            case "thinking_delta":
                block.text += delta.thinking
                yield Delta(delta.thinking, thought=True)
            case "signature_delta":
                block.signature += delta.signature
            case "input_json_delta":
                block.text += delta.partial_json

    def _made(self) -> Iterator[Part]:
        names = WireNames(tool.name for tool in self.request.tools)
        taken = {call.id for message in self.request.messages for call in message.calls}
        calls = 0
        for block in self._blocks.values():
            match block.kind:
                case "text" if block.text:
                    yield TextPart(text=block.text)
                case "thinking" | "redacted_thinking":
                    yield TextPart(text=block.text, thought=True, signature=block.signature or None)
                case "tool_use":
                    own_id = call_id(block.id, taken, self.request.prompt_id, calls)
                    taken.add(own_id)
                    calls += 1
                    args, problem = read_arguments(block.text)
                    yield ToolCall(id=own_id, name=names.original(block.name), args=args, problem=problem)
                case "text":
                    pass
                case other:
                    yield TextPart(text=_LEFT_OUT.format(what=other))
