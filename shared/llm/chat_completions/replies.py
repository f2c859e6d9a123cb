"""An answer of Chat Completions, whole or in chunks, as one reading. It ends as its cause says, not as its word does.

Servers say ``stop`` beside calls, give ids twice or none, and end a broken stream as if it were whole.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion_usage import CompletionUsage

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import Delta, FinishReason, ModelRequest
from ekiden.shared.llm.call_arguments import read_arguments
from ekiden.shared.llm.call_ids import call_id
from ekiden.shared.llm.chat_completions.textual_calls import calls_in
from ekiden.shared.llm.schema import WireNames, wire_name
from ekiden.shared.messages import Message, Part, TextPart, ToolCall, Usage

__all__ = ["ReplyReader"]

_THINK = ("<think>", "</think>")
"""What some models put their thoughts between, at the very beginning, where the server does not set them apart."""
_MEDIA = ("images", "audio")
_MEDIA_NOTE = "[The model's reply has {what} besides, which cannot be shown here: left out.]"


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class ReplyReader:
    """What has been read of one answer. Feed it the whole, or every chunk, then ask for ``finish``."""

    request: ModelRequest
    access: KeyAccess
    reason: str = ""
    refusal: str = ""
    usage: Usage = field(default_factory=Usage)
    _model: str = ""
    _text: str = ""
    _thought: str = ""
    _shown: int = 0
    """How much of ``_text`` listeners have seen, or never will."""
    _looked: int = 0
    """How much of ``_text`` holds no end of a thought."""
    _calls: list[_Call] = field(default_factory=list)
    _at: dict[int, _Call] = field(default_factory=dict)
    """The call that pieces of an index belong to."""
    _media: set[str] = field(default_factory=set)
    _parts: list[Part] | None = None

    def add_whole(self, answer: ChatCompletion) -> None:
        """Take in an answer that came as a whole."""
        self._note(answer.model, answer.usage)
        choices: Any = answer.choices  # the client checks nothing that a server sends
        for choice in choices[:1]:
            self.reason = choice.finish_reason or ""
            for _ in self._add(choice.message, choice.message.tool_calls or []):
                pass

    def add_chunk(self, chunk: ChatCompletionChunk) -> Iterator[Delta]:
        """Take one chunk in; yield what of it can be shown at once."""
        self._note(chunk.model, chunk.usage)
        choices: Any = chunk.choices
        for choice in (choices or [])[:1]:
            self.reason = choice.finish_reason or self.reason
            yield from self._add(choice.delta, choice.delta.tool_calls or [])

    @property
    def served_by(self) -> str:
        """The model that answered, as it is called here: a dated name of the one that was asked, or that itself."""
        asked = self.access.bare(self.request.model)
        return f"{self.access.name}/{self._model if self._model.startswith(asked) else asked}"

    @property
    def finish(self) -> FinishReason:
        """Why the answer ended. Raises ``ModelUnavailable`` where it has no end: the connection was cut."""
        if self.reason == "content_filter" or self.refusal:
            return "refused"
        if not self.reason:
            raise ModelUnavailable("The model's answer broke off before its end")
        calls = [part for part in self.parts if isinstance(part, ToolCall)]
        if any(call.problem for call in calls):
            return "max_tokens" if self.reason == "length" else "malformed_call"
        if self.reason == "length" and not calls:
            return "max_tokens"
        return "stop" if calls or self._text.strip() else "empty"

    @property
    def detail(self) -> str:
        """What the server said of the end, for people."""
        problems = (part.problem for part in self.parts if isinstance(part, ToolCall) and part.problem)
        return self.refusal[:300] or next(problems, "") or self.reason

    @property
    def parts(self) -> list[Part]:
        """Thoughts, text and calls. To be asked for when all has been taken in."""
        if self._parts is None:
            self._parts = list(self._made())
        return self._parts

    @property
    def is_textual_call(self) -> bool:
        """Whether listeners were shown a text that is none."""
        return not self._calls and any(isinstance(part, ToolCall) for part in self.parts)

    def _note(self, model: str | None, usage: CompletionUsage | None) -> None:
        self._model = model or self._model
        if usage is not None:
            self.usage = Usage(input_tokens=usage.prompt_tokens or 0, output_tokens=usage.completion_tokens or 0)

    def _add(self, said: Any, calls: Collection[Any]) -> Iterator[Delta]:
        """Take in a message, or a piece of one: they have the same fields."""
        self.refusal += said.refusal or ""
        extra = said.model_extra or {}
        self._media |= {name for name in _MEDIA if extra.get(name) or getattr(said, name, None)}
        if thought := extra.get("reasoning_content") or extra.get("reasoning"):
            self._thought += str(thought)
            yield Delta(str(thought), thought=True)
        if said.content:
            self._text += said.content
            yield from self._shown_now()
        for place, call in enumerate(calls):
            self._add_call(getattr(call, "index", place) or 0, call)

    def _add_call(self, index: int, piece: Any) -> None:
        call = self._at.get(index)
        if call is None or (piece.id and call.id and piece.id != call.id):  # servers count every call as the first
            call = self._at[index] = _Call()
            self._calls.append(call)
        call.id = piece.id or call.id
        function = getattr(piece, "function", None)
        if function is not None:
            call.name = function.name or call.name
            call.arguments += function.arguments or ""

    def _shown_now(self) -> Iterator[Delta]:
        """Yield the text that has come, once it is plain whether it is a thought."""
        begin, end = _THINK
        text = self._text.lstrip()
        if begin.startswith(text[: len(begin)]) and text.find(end, self._looked) < 0:
            self._looked = max(len(text) - len(end), 0)  # each chunk is looked through once
            return  # a thought so far, or it may become one: told when it is whole
        if text.startswith(begin):
            thought, _, rest = text.removeprefix(begin).partition(end)
            self._thought, self._text, self._shown = thought.strip(), rest.lstrip(), 0
            yield Delta(self._thought, thought=True)
        if new := self._text[self._shown :]:
            self._shown = len(self._text)
            yield Delta(new)

    def _made(self) -> Iterator[Part]:
        begin, _ = _THINK
        if self._text.lstrip().startswith(begin):  # cut off in the middle of a thought
            self._thought, self._text = self._text.lstrip().removeprefix(begin), ""
        if self._thought:
            yield TextPart(text=self._thought, thought=True)
        calls = self._calls or self._calls_as_text()
        if self._text and (self._calls or not calls):
            yield TextPart(text=self._text)
        if self._media:
            yield TextPart(text=_MEDIA_NOTE.format(what=" and ".join(sorted(self._media))))
        names = WireNames(tool.name for tool in self.request.tools)
        taken = {call.id for message in self.request.messages for call in message.calls}
        for index, call in enumerate(calls):
            own_id = call_id(call.id, taken, self.request.prompt_id, index)
            taken.add(own_id)
            args, problem = read_arguments(call.arguments)
            yield ToolCall(id=own_id, name=names.original(call.name), args=args, problem=problem)

    def _calls_as_text(self) -> list[_Call]:
        """Return the calls that the text is: of OpenAI's own none, nor where it repeats what the model was told."""
        if self.access.base_url is None:
            return []
        said = self._text.strip()
        found = calls_in(said, {wire_name(tool.name) for tool in self.request.tools})
        if found and any(said in text for message in self.request.messages for text in _texts_in(message)):
            return []
        return [_Call(name=name, arguments=arguments) for name, arguments in found]


def _texts_in(message: Message) -> Iterator[str]:
    yield message.text
    yield from (result.content for result in message.results)
