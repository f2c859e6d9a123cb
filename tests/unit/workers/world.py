"""Models and tools for tests of the worker side."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from ekiden.shared.llm.base import FinishReason, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, TextPart, ToolCall, Usage
from ekiden.workers.tools.base import Tool, ToolContext, tool
from tests.scenarios.relay import assert_well_formed

__all__ = ["Replies", "Said", "What", "call", "calls", "handing_over", "said", "tool_named"]

Said = ModelReply | Exception | Callable[[], Any]


def said(text: str, *, finish: FinishReason = "stop", tokens: int = 0) -> ModelReply:
    """A reply without calls."""
    message = Message(role="model", parts=(TextPart(text=text),) if text else ())
    return ModelReply(message=message, finish=finish, usage=Usage(output_tokens=tokens), model="test")


def calls(*made: ToolCall, text: str = "", tokens: int = 0) -> ModelReply:
    """A reply with calls."""
    parts = (*((TextPart(text=text),) if text else ()), *made)
    return ModelReply(message=Message(role="model", parts=parts), usage=Usage(output_tokens=tokens), model="test")


def call(call_id: str, name: str, **args: Any) -> ToolCall:
    """One tool call."""
    return ToolCall(id=call_id, name=name, args=args)


def handing_over(call_id: str, to: str, **args: Any) -> ToolCall:
    """A call of ``to``'s transfer tool, with a reason."""
    return call(call_id, f"transfer_to_{to}", **{"reason": f"{to} should go on", **args})


class Replies:
    """A model that gives every agent its replies in order: which one, it reads from the request, as a resume needs it.

    A callable stands for a reply that takes its time: it is awaited.
    """

    def __init__(self, by_agent: Mapping[str, Sequence[Said]]) -> None:
        self.requests: list[ModelRequest] = []
        self._by_agent = by_agent

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        assert_well_formed(request)
        self.requests.append(request)
        turn = sum(message.role == "model" for message in request.messages)  # also of its earlier legs
        reply = self._by_agent[request.agent][turn]
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, ModelReply):
            reply = await reply()
        assert isinstance(reply, ModelReply)
        return reply

    def asked(self, agent: str) -> list[ModelRequest]:
        """What ``agent``'s turns asked, in order."""
        return [request for request in self.requests if request.agent == agent]


class What(BaseModel):
    """Does something."""

    what: str = ""

    @classmethod
    @cache
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Its schema, made once: each test has tools of it."""
        return super().model_json_schema(*args, **kwargs)


def tool_named(
    name: str,
    function: Callable[[What, ToolContext], Any] | None = None,
    *,
    read_only: bool = False,
    idempotent: bool = False,
    untrusted: bool = False,
    needs_workspace: bool = False,
    ran: list[str] | None = None,
) -> Tool:
    """A tool that notes in ``ran`` the ids of the calls that it served."""

    async def run(args: What, context: ToolContext) -> str:
        if ran is not None:
            ran.append(context.call_id)
        await asyncio.sleep(0)
        return str(await function(args, context)) if function else f"{name}({args.what})"

    run.__name__ = name
    made = tool(What, read_only=read_only, idempotent=idempotent, needs_workspace=needs_workspace, untrusted=untrusted)
    return made(run)
