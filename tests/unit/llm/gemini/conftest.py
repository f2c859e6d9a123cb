"""Gemini's double, and a model that talks to it through the real client."""

import asyncio
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, ToolSpec
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.messages import Message, ToolCall, ToolResult, answered, user_message
from tests.doubles.gemini.fixture import gemini  # noqa: F401 (a fixture is found by its name here)
from tests.doubles.gemini.server import GeminiServer

SIGNING = "gemini-3.8-flash"
OTHER_SIGNING = "gemini-4-argon"
PLAIN = "gemini-2.5-flash"

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@dataclass
class World:
    """One double, one model; every question is a call of its own."""

    server: GeminiServer
    model: GeminiModel
    runner: asyncio.Runner
    timeout_s: float = 5.0
    deltas: list[Delta] = field(default_factory=list)

    def rule(self, last: str, reply: dict[str, Any], **more: Any) -> None:
        self.server.add({"when": {"last": last}, "reply": reply, **more})

    def ask(self, *messages: Message | str, stream: bool = False, **request: Any) -> ModelReply:
        """Ask the model; streamed, what a listener hears is in ``deltas``."""
        model = copy.copy(self.model)
        model._timeout_s = self.timeout_s
        return self.runner.run(model.reply(asked(*messages, **request), self.deltas.append if stream else None))

    @property
    def access(self) -> GeminiAccess:
        return GeminiAccess(api_key="test", base_url=self.server.url)

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.server.requests[-1].body

    @property
    def shown(self) -> list[str]:
        """The visible text that a reader of the stream ends up with, piece by piece."""
        pieces: list[str] = []
        for delta in self.deltas:
            if delta.restart:
                pieces.clear()
            elif not delta.thought:
                pieces.append(delta.text)
        return pieces


def asked(*messages: Message | str, model: str = PLAIN, **more: Any) -> ModelRequest:
    said = tuple(user_message(one) if isinstance(one, str) else one for one in messages)
    defaults: dict[str, Any] = {"agent": "forecaster", "instructions": "You know the weather.", "tools": (WEATHER,)}
    return ModelRequest(model=model, messages=said, **(defaults | more))


def results_for(message: Message, *contents: str) -> Message:
    """Answer every call of ``message``, in call order."""
    return answered(result(call, text) for call, text in zip(message.calls, contents, strict=True))


def result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=is_error)


@pytest.fixture(scope="session")
def shared_world() -> Iterator[World]:
    """One server, one client, one event loop: a client of its own would cost every test a tenth of a second."""
    with GeminiServer() as server, asyncio.Runner() as runner:
        model = GeminiModel(GeminiAccess(api_key="test", base_url=server.url))
        runner.run(model._connected())  # before it is copied
        yield World(server, model, runner)
        runner.run(model.aclose())


@pytest.fixture
def world(shared_world: World) -> World:
    """The shared world, as new."""
    shared_world.server.reset()
    shared_world.server.keys = None
    return World(shared_world.server, shared_world.model, shared_world.runner)
