"""What a node of a graph does that is a tool, or a question: its one call, which goes the way of an agent's calls.

So rules, approvals, hooks, guardrails and the sandbox hold for it as for any agent's, and a worker that dies is taken
over from. In the place of a model stands one that makes the call, and then gives its result.
"""

from collections.abc import Mapping
from typing import Any

from ekiden.shared.definitions.guardrails import GuardedPlace, Guardrail
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, Part, TextPart, ToolCall
from ekiden.shared.records import GRAPH

__all__ = ["ASK_USER", "NODE_CALL", "NodeCall", "call_of", "calling"]

ASK_USER = "ask_user"
_TOOL, _ARGS = "tool", "args"
NODE_CALL = "node"
"""The id of that call."""


def call_of(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a job that makes a call, and nothing else."""
    return {_TOOL: tool, _ARGS: dict(args)}


def calling(agent: AgentDefinition, inputs: Mapping[str, Any]) -> AgentDefinition:
    """Return a graph's agent as it makes the call of ``inputs``: with its rights, without what only a model does."""
    rails = (rail.model_copy(update={"on": on}) for rail in agent.guardrails if (on := _at_tools(rail)))
    update: dict[str, Any] = {
        "output": None,
        "complete_task": False,
        "handoffs": (),
        "subagents": (),
        "guardrails": tuple(rails),
    }
    if inputs[_TOOL] == ASK_USER:  # which is the graph's own wish, and no right that it needs
        update["tools"] = agent.rules.model_copy(update={"allow": (ASK_USER,)})
    made = agent.model_copy(update=update)
    made.__dict__.pop("digest", None)  # which is another one
    return made


def _at_tools(rail: Guardrail) -> tuple[GuardedPlace, ...]:
    """Return where a guardrail stands that judges calls: the others are about all of the graph."""
    return tuple(place for place in rail.on if place in ("tool_input", "tool_output"))


class NodeCall:
    """A ``ChatModel`` that makes one call and gives its result as its answer: as one that failed, where it did."""

    def __init__(self, agent: str, inputs: Mapping[str, Any], model: ChatModel) -> None:
        """``inputs``: what ``call_of`` returned; ``model``: answers who asks beside the turns of ``agent``."""
        self._agent = agent
        self._model = model
        self._call = ToolCall(id=NODE_CALL, name=inputs[_TOOL], args=inputs[_ARGS])

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """See ``ChatModel``."""
        if request.agent != self._agent:  # a guardrail judges
            return await self._model.reply(request, on_delta)
        results = [result for message in request.messages for result in message.results]
        part: Part = TextPart(text=results[-1].content) if results else self._call
        return ModelReply(
            message=Message(role="model", parts=(part,)),
            finish="unfinished" if results and results[-1].is_error else "stop",
            model=GRAPH,
        )
