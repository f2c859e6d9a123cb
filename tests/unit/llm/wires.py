"""The adapters, each with the double of its provider: what the same tests ask all of them."""

import asyncio
import copy
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.anthropic import AnthropicModel
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, ToolSpec
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.openai import OpenAIModel
from ekiden.shared.llm.wire_model import WireModel
from ekiden.shared.messages import Message, ToolCall, ToolResult, answered, user_message
from tests.doubles.anthropic_server import AnthropicServer
from tests.doubles.gemini.server import GeminiServer
from tests.doubles.openai_server import OpenAIServer

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI",
    "WEATHER",
    "WIRES",
    "Wire",
    "World",
    "asked",
    "await_requests",
    "result",
    "results_for",
]

PATIENCE_S = 20.0
KEY = "secret-test-key"
NOWHERE = "http://127.0.0.1:9"
WEATHER = ToolSpec(
    name="get_weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@dataclass(frozen=True)
class Wire:
    """An adapter and the double of its provider."""

    name: str
    model: str
    """Whom it is asked for."""
    unknown: str
    """A model that the provider does not have."""
    serve: Callable[[], Any]
    """Makes the double: it plays rules (``add``), keeps ``requests``, and has a ``url``."""
    adapter: Callable[..., WireModel]
    """Makes the model of an address."""
    key_variable: str
    address: str
    """What to check where nobody of the kind answers."""
    plays: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """The double's words for what all providers may do."""

    def __repr__(self) -> str:
        return self.name


@dataclass
class World:
    """One double, one model; every question is a call of its own."""

    wire: Wire
    server: Any
    model: WireModel
    runner: asyncio.Runner
    timeout_s: float = 5.0
    deltas: list[Delta] = field(default_factory=list)

    def rule(self, last: str, reply: str | dict[str, Any], **more: Any) -> None:
        """Answer requests whose last words are ``last`` with a reply of the double's, or one of ``Wire.plays``."""
        played = self.wire.plays[reply] if isinstance(reply, str) else reply
        self.server.add({"when": {"last": last}, "reply": played, **more})

    def ask(self, *messages: Message | str, stream: bool = False, **request: Any) -> ModelReply:
        """Ask the model; streamed, what a listener hears is in ``deltas``."""
        model = copy.copy(self.model)
        model._timeout_s = self.timeout_s
        listener = self.deltas.append if stream else None
        return self.runner.run(model.reply(asked(*messages, **{"model": self.wire.model, **request}), listener))

    def ask_at_once(self, number: int, text: str, **request: Any) -> list[ModelReply]:
        """Ask so many times; the double lets all wait (``hang``) until it has them."""

        async def replies() -> list[ModelReply]:
            one = asked(text, **{"model": self.wire.model, **request})
            asking = [asyncio.create_task(self.model.reply(one)) for _ in range(number)]
            await asyncio.to_thread(await_requests, self.server, number)
            self.server.release()
            return await asyncio.gather(*asking)

        return self.runner.run(replies())

    def await_request(self) -> None:
        """Return when the double has a request."""
        await_requests(self.server, 1)

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last request."""
        body: dict[str, Any] = self.server.requests[-1].body
        return body

    @property
    def sent_text(self) -> str:
        """The same as JSON."""
        return json.dumps(self.sent, ensure_ascii=False)

    @property
    def shown(self) -> str:
        """The visible text that a reader of the stream ends up with."""
        text = ""
        for delta in self.deltas:
            text = "" if delta.restart else text if delta.thought else text + delta.text
        return text


def await_requests(server: Any, number: int) -> None:
    """Return when the double has so many requests."""
    ends = time.monotonic() + PATIENCE_S
    while len(server.requests) < number:
        assert time.monotonic() < ends, "nobody asks"
        time.sleep(0.001)


def asked(*messages: Message | str, model: str = "gemini-2.5-flash", **more: Any) -> ModelRequest:
    said = tuple(user_message(one) if isinstance(one, str) else one for one in messages)
    defaults: dict[str, Any] = {"agent": "forecaster", "instructions": "You know the weather.", "tools": (WEATHER,)}
    return ModelRequest(model=model, messages=said, **(defaults | more))


def results_for(message: Message, *contents: str) -> Message:
    """Answer every call of ``message``, in call order."""
    return answered(result(call, text) for call, text in zip(message.calls, contents, strict=True))


def result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=is_error)


GEMINI = Wire(
    name="gemini",
    model="gemini-2.5-flash",
    unknown="gemini-9",
    serve=GeminiServer,
    adapter=lambda url, **more: GeminiModel(GeminiAccess(api_key=KEY, base_url=url), **more),
    key_variable="GEMINI_API_KEY",
    address="GEMINI_BASE_URL",
    plays={
        "cut off": {"finish": "MAX_TOKENS", "text": "cut of"},
        "refusal": {"safety": True},
        "malformed": {"finish": "MALFORMED_FUNCTION_CALL"},
        "no end": {"text": ["half", "…"], "no_finish": True},
        "broken": {"text": ["first ", "half ", "rest"], "stream_error": 503},
        "no quota": {"error": 429, "per_day": True},
    },
)
OPENAI = Wire(
    name="openai",
    model="local/qwen3",
    unknown="local/nosuch",
    serve=OpenAIServer,
    adapter=lambda url, **more: OpenAIModel(KeyAccess("local", url, "LOCAL_KEY", KEY), **more),
    key_variable="LOCAL_KEY",
    address="providers.local.base_url",
    plays={
        "cut off": {"finish": "length", "text": "cut of"},
        "refusal": {"refusal": "I can't help with that."},
        "malformed": {"calls": [{"name": "get_weather", "raw": "{bad"}]},
        "no end": {"text": ["half", "…"], "finish": None},
        "broken": {"text": ["first ", "half ", "rest"], "stream_error": "overloaded"},
        "no quota": {"error": 429, "code": "insufficient_quota"},
    },
)
ANTHROPIC = Wire(
    name="anthropic",
    model="claude-sonnet-5-5",
    unknown="claude-nosuch",
    serve=AnthropicServer,
    adapter=lambda url, **more: AnthropicModel(KeyAccess("anthropic", url, "ANTHROPIC_API_KEY", KEY), **more),
    key_variable="ANTHROPIC_API_KEY",
    address="ANTHROPIC_BASE_URL",
    plays={
        "cut off": {"finish": "max_tokens", "text": "cut of"},
        "refusal": {"finish": "refusal", "text": "I"},
        "malformed": {"calls": [{"name": "get_weather", "raw": "{bad"}]},
        "no end": {"text": ["half", "…"], "finish": None},
        "broken": {"text": ["first ", "half ", "rest"], "stream_error": "overloaded_error"},
        "no quota": {"error": 400, "message": "Your credit balance is too low to access the Anthropic API."},
    },
)
WIRES = (GEMINI, OPENAI, ANTHROPIC)
