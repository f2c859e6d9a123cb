"""A job that failed and is retried goes on behind its last record, with its limits counted anew."""

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.messages import ToolCall
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.world import Replies, call, calls, handing_over, said, tool_named


def look(call_id: str, tokens: int = 0) -> ModelReply:
    return calls(call(call_id, "look"), tokens=tokens)


def refused(call_id: str) -> ModelReply:
    return calls(handing_over(call_id, "nobody"))


def made_in(replies: Sequence[ModelReply]) -> list[ToolCall]:
    return [made for reply in replies for made in reply.message.calls]


CASES: dict[str, tuple[dict[str, Any], list[ModelReply], list[ModelReply | Exception], str]] = {
    "turns": ({"max_turns": 2}, [look("c1"), look("c2")], [], "MAX_TURNS"),
    "tokens": ({"max_tokens": 10}, [look("c1", 9), look("c2", 9)], [], "MAX_TOKENS"),
    "refusals": ({}, [refused("c1"), refused("c2"), refused("c3")], [], "HANDOFF_REFUSED"),
    "half an answer": ({}, [look("c1")], [said("Once upon", finish="max_tokens")], "ERROR"),
    "a model error": ({}, [look("c1")], [ModelError("no such model")], "ERROR"),
}


@pytest.mark.parametrize(("limits", "turns", "end", "reason"), CASES.values(), ids=CASES.keys())
def test_a_retried_job_has_another_try_and_forgets_nothing(
    limits: dict[str, Any], turns: list[ModelReply], end: list[ModelReply | Exception], reason: str
) -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> None:
        catalog, tools = team({"name": "solo", "limits": {**limits, "grace_seconds": 0}}), [tool_named("look", ran=ran)]
        story = await Relay(stores, catalog, Replies({"solo": [*turns, *end]}), tools=tools).told("do", agent="solo")
        assert (story.view.status, story.view.reason) == ("failed", reason)
        model = Replies({"solo": [*turns, look("c9"), said("there")]})
        relay = Relay(stores, catalog, model, tools=tools)
        await relay.retry(story.view.id)
        after = await relay.story(story.view.id)
        assert (after.view.status, after.view.result) == ("done", "there")
        assert [made for message in model.requests[0].messages for made in message.calls] == made_in(turns)
        assert len(model.requests) == 2

    on_server(scenario)
    assert len(ran) == len(set(ran))


def test_limits_count_again_after_a_retry() -> None:
    async def scenario(stores: Stores) -> None:
        model = Replies({"solo": [look(f"c{n}") for n in range(9)]})
        relay = Relay(
            stores,
            team({"name": "solo", "limits": {"max_turns": 2, "grace_seconds": 0}}),
            model,
            tools=[tool_named("look")],
        )
        story = await relay.told("do it", agent="solo")
        await relay.retry(story.view.id)
        after = await relay.story(story.view.id)
        assert (after.view.status, after.view.reason) == ("failed", "MAX_TURNS")
        assert len(model.requests) == 4

    on_server(scenario)
