"""A model whose helpers, who have no turns, get their replies in their order; and the story of a job with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.records import Record
from ekiden.shared.stores.opening import Stores
from ekiden.workers.rail_judge import JUDGE
from ekiden.workers.repairs import REPAIRER
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, Said, call, calls, tool_named

__all__ = ["Helped", "judged", "story_of"]


def judged(confidence: Any, reason: Any = "It scolds.") -> ModelReply:
    """How sure a model is that a sentence is not true."""
    return calls(call("j", "report_judgement", reason=reason, violation_confidence=confidence), tokens=10)


class Helped(Replies):
    """Gives agents their replies by their turns, and helpers in the order in which they are asked."""

    def __init__(self, by_agent: Mapping[str, Sequence[Said]], by_helper: Mapping[str, Sequence[Said]]) -> None:
        super().__init__(by_agent)
        self._helpers = {name: iter(replies) for name, replies in by_helper.items()}

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if (replies := self._helpers.get(request.agent)) is None:
            return await super().reply(request, on_delta)
        self.requests.append(request)
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, ModelReply)
        return reply


def story_of(
    rails: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *replies: Said,
    repairs: Sequence[Said] = (),
    judgements: Sequence[Said] = (),
    agent: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    of_others: Mapping[str, Sequence[Said]] | None = None,
    lost: Sequence[Record] = (),
    requests: list[ModelRequest] | None = None,
    ran: list[str] | None = None,
    wakes: int = 0,
    **world: Any,
) -> Story:
    """What becomes of a job of agent ``a`` with guardrails.

    Args:
        rails: Its guardrails; one without a name is called ``rail``.
        replies: Of its model, by turn.
        repairs: Of the model that repairs.
        judgements: Of the model that judges.
        agent: What else its file says.
        others: The front matter of other agents.
        of_others: Their replies.
        lost: What a lost worker has recorded.
        requests: Gets what models were asked.
        ran: Gets the calls that tools served.
        wakes: How often the leg is woken whose model is away.
        world: See ``Relay``.
    """
    listed = [rails] if isinstance(rails, Mapping) else rails

    async def scenario(stores: Stores) -> Story:
        model = Helped({"a": replies, **(of_others or {})}, {REPAIRER: repairs, JUDGE: judgements})
        file = {"name": "a", "guardrails": [{"name": "rail", **one} for one in listed], **(agent or {})}
        tools = [tool_named("put", ran=ran), tool_named("look", read_only=True, ran=ran)]
        relay = Relay(stores, team(file, *others), model, tools=tools, **world)
        job = await relay.submit("go", agent="a")
        await relay.step()
        if lost:
            await relay.lose(job, list(lost))
        await relay.drain()
        for _ in range(wakes):
            await relay.wake(job)
            await relay.drain()
        if requests is not None:
            requests.extend(model.requests)
        return await relay.story(job)

    return on_server(scenario)
