"""Gemini's answer, whole or in chunks, as one reading. What the answer is called is decided by its cause alone."""

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from google.genai import types

from ekiden.shared.errors import ModelUnavailable, RequestRefused
from ekiden.shared.llm.base import Delta, FinishReason
from ekiden.shared.llm.call_ids import call_id
from ekiden.shared.llm.schema import WireNames
from ekiden.shared.messages import Part, TextPart, ToolCall, Usage

__all__ = ["ReplyReader"]

_MALFORMED = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"}
_CUT_OFF = {"MAX_TOKENS", "CONTINUATION"}
_NO_REASON = {"", "FINISH_REASON_UNSPECIFIED"}


@dataclass
class ReplyReader:
    """What has been read of one answer. Feed it every chunk, then ask for ``finish``."""

    names: WireNames
    taken_ids: Collection[str]
    """Call ids of the conversation so far: Gemini does not promise that its own are new."""
    prompt_id: str = ""
    """Of the request; see ``ModelRequest``."""
    parts: list[Part] = field(default_factory=list)
    reason: str = ""
    message: str = ""
    block: str = ""
    served_by: str = ""
    _usage: dict[str, int] = field(default_factory=dict)

    def add(self, chunk: types.GenerateContentResponse) -> Iterator[Delta]:
        """Take one chunk in; yield what of it can be shown at once."""
        self.served_by = chunk.model_version or self.served_by
        if chunk.usage_metadata is not None:  # counts are totals so far, and early chunks lack some
            self._usage |= chunk.usage_metadata.model_dump(include=_COUNTS, exclude_none=True)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            self.block = chunk.prompt_feedback.block_reason.value
        for candidate in (chunk.candidates or [])[:1]:
            if candidate.finish_reason is not None:
                self.reason = candidate.finish_reason.value
                self.message = candidate.finish_message or ""
            for part in (candidate.content.parts if candidate.content else None) or []:
                yield from self._add_part(part)

    @property
    def usage(self) -> Usage:
        """The tokens of the call; thoughts are output."""
        count = self._usage.get
        return Usage(
            input_tokens=count("prompt_token_count", 0) + count("tool_use_prompt_token_count", 0),
            output_tokens=count("candidates_token_count", 0) + count("thoughts_token_count", 0),
        )

    @property
    def finish(self) -> FinishReason:
        """Why the answer ended.

        Raises:
            ModelUnavailable: it has no end: the connection was cut.
            RequestRefused: a thought signature was missing, which no other try would mend.
        """
        if self.block:
            return "refused"
        if self.reason == "STOP":
            return "stop" if self._says_something() else "empty"
        if self.reason in _MALFORMED:
            return "malformed_call"
        if self.reason in _CUT_OFF:
            return "max_tokens"
        if self.reason == "MISSING_THOUGHT_SIGNATURE":
            raise RequestRefused(f"Gemini misses a thought signature in the history of model {self.served_by!r}")
        if self.reason in _NO_REASON:
            raise ModelUnavailable("Gemini's answer broke off before its end")
        return "refused"

    @property
    def detail(self) -> str:
        """What Gemini said of the end, for people."""
        if self.block:
            return f"blocked: {self.block}"
        return f"{self.reason}: {self.message[:300]}" if self.message else self.reason

    def _says_something(self) -> bool:
        return any(
            isinstance(part, ToolCall) or (isinstance(part, TextPart) and not part.thought and part.text.strip())
            for part in self.parts
        )

    def _add_part(self, part: types.Part) -> Iterator[Delta]:
        signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
        if part.function_call is not None:
            self._add_call(part.function_call, signature)
        elif part.text or signature:  # a signature may come on a part of its own, with no text
            text, is_thought = part.text or "", bool(part.thought)
            self._add_text(text, is_thought, signature)
            if text:
                yield Delta(text, is_thought)

    def _add_text(self, text: str, is_thought: bool, signature: str | None) -> None:
        """Join the pieces of a stream; a signature stays on the piece that it came with."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, TextPart) and last.thought == is_thought and not (last.signature or signature):
            self.parts[-1] = TextPart(text=last.text + text, thought=is_thought)
        else:
            self.parts.append(TextPart(text=text, thought=is_thought, signature=signature))

    def _add_call(self, call: types.FunctionCall, signature: str | None) -> None:
        here = [part.id for part in self.parts if isinstance(part, ToolCall)]
        own_id = call_id(call.id, {*here, *self.taken_ids}, self.prompt_id, len(here))
        name = self.names.original(call.name or "")
        self.parts.append(ToolCall(id=own_id, name=name, args=call.args or {}, signature=signature))


_COUNTS = {"prompt_token_count", "tool_use_prompt_token_count", "candidates_token_count", "thoughts_token_count"}
