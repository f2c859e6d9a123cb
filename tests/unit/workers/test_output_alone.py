"""An agent whose only end is its output tells the model so; see ``shared.llm.structured``."""

import pytest

from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.world import Replies, call, calls, tool_named

REPORT = {"name": "report", "schema": {"type": "object", "required": ["found"]}}


@pytest.mark.parametrize(
    ("more", "answer_as"),
    [({"tools": []}, "complete_task"), ({"tools": ["look"]}, ""), ({"tools": [], "handoffs": ["b"]}, "")],
)
def test_the_answer_is_asked_for_as_the_call_where_there_is_no_other(more: dict[str, object], answer_as: str) -> None:
    async def scenario(stores: Stores) -> None:
        wrong = calls(call("c1", "complete_task", report={"lost": 1}))
        model = Replies({"a": [wrong, calls(call("c2", "complete_task", report={"found": 2}))]})
        solo = {"name": "a", "output": REPORT, "complete_task": True, **more}
        relay = Relay(stores, team(solo, {"name": "b"}), model, tools=[tool_named("look")])
        story = await relay.told("do", agent="a")
        assert (story.view.status, story.end.output) == ("done", {"found": 2})
        assert [request.answer_as for request in model.requests] == [answer_as] * 2

    on_server(scenario)
