"""What a job may use up together with all that it hands over and delegates, and what its agents are told of that."""

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply
from ekiden.shared.records import LastTurn, LimitNear, ModelReplied, Noticed
from ekiden.shared.stores.opening import Stores
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.conftest import Hang
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

LOOK = tool_named("look", read_only=True)


def told(replies: dict[str, Sequence[Said]], first: dict[str, Any], *others: dict[str, Any]) -> tuple[Story, Replies]:
    """Run a job that begins with the agent ``lead``."""
    model = Replies(replies)
    agents = team({"name": "lead", **first}, *others)

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, agents, model, tools=[LOOK]).told("do it", agent="lead")

    return on_server(scenario), model


def look(n: int, tokens: int = 0) -> ModelReply:
    return calls(call(f"c{n}", "look", what=str(n)), tokens=tokens)


def ends(story: Story) -> tuple[str, str | None, str | None, bool]:
    """How the job ended."""
    return story.view.status, story.view.reason, story.view.result, story.end.recovered


@pytest.mark.parametrize(
    ("limits", "reason"), [({"max_turns": 3}, "MAX_TURNS"), ({"max_tokens": 150}, "MAX_TOKENS")], ids=str
)
def test_agents_that_hand_over_share_the_jobs_limit_and_the_last_one_may_end(limits: Any, reason: str) -> None:
    replies: dict[str, Sequence[Said]] = {
        "lead": [look(0, 50), calls(handing_over("h", "other"), tokens=50)],
        "other": [look(1, 50), said("as far as we got")],
    }
    first = {"handoffs": ["other"], "limits": {"job": limits}}
    story, model = told(replies, first, {"name": "other", "handoffs": ["lead"]})
    assert ends(story) == ("done", reason, "as far as we got", True)
    last = model.requests[-1]
    assert "All agents that work on this job together have reached its limit" in last.messages[-1].text
    assert last.tools == (), "the store would refuse a handoff"


def test_what_a_child_spends_is_gone_for_its_caller() -> None:
    replies: dict[str, Sequence[Said]] = {
        "lead": [calls(call("d", "delegate_to_scout", objective="look")), said("what scout found")],
        "scout": [look(0), look(1), said("half of it")],
    }
    story, model = told(replies, {"subagents": ["scout"], "limits": {"job": {"max_turns": 3}}}, {"name": "scout"})
    assert "half of it" in story.results["d"]
    assert ends(story) == ("done", "MAX_TURNS", "what scout found", True)
    assert "its limit (max_turns: 3)" in model.asked("scout")[-1].messages[-1].text


def test_a_limit_of_legs_refuses_what_would_begin_another_one() -> None:
    both = calls(*(call(f"d{n}", "delegate_to_scout", objective=f"look {n}") for n in (1, 2)))
    replies: dict[str, Sequence[Said]] = {
        "lead": [both, calls(handing_over("h", "other")), said("all that two legs gave")],
        "scout": [said("found")],
    }
    first = {"subagents": ["scout"], "handoffs": ["other"], "limits": {"job": {"max_legs": 2}}}
    story, _ = told(replies, first, {"name": "scout"}, {"name": "other"})
    assert "found" in story.results["d1"]
    assert "BUDGET_EXCEEDED" in story.results["d2"]
    assert story.codes == ["BUDGET_EXCEEDED"]
    assert ends(story) == ("done", "GOAL", "all that two legs gave", False)
    assert [near.text.partition(":")[0] for near in story.of(LimitNear)] == [
        "This job may be handed over or delegated 0 times more (max_legs)"
    ]


def test_the_money_of_a_job_is_a_hard_stop() -> None:
    story, model = told({"lead": [said("never asked")]}, {"limits": {"job": {"max_cost_usd": 0}}})
    assert (story.view.reason, story.of(LastTurn), model.requests) == ("MAX_COST", [], [])
    assert "limits.job" in str(story.end.error)


def test_the_jobs_time_ends_a_leg_that_its_own_would_not_and_earlier_legs_count(hang: Hang) -> None:
    model = Replies({"lead": [hang, hang]})
    front = {"name": "lead", "limits": {"grace_seconds": 0, "job": {"max_seconds": 1_000}}}

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(front), model)
        job = await relay.submit("do it", agent="lead")
        await relay.step()
        earlier = await claimed(stores, job, owner="dead", lease_s=0.0)
        told = [Noticed(leg=1, text="-")]
        await stores.jobs.append(earlier.lease, "t", told, used_ms=500_000, is_progress=False)
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.view.status, story.view.reason) == ("failed", "TIMEOUT")
    assert "the job's limit (max_seconds: 1000)" in str(story.end.error)


def test_the_first_limit_that_is_near_is_told_once_and_stands_in_the_conversation() -> None:
    limits = {"max_turns": 5, "max_tokens": 1_000, "job": {"max_tokens": 2_000}}
    story, model = told({"lead": [look(0, 10), look(1, 790), look(2), look(3), said("done")]}, {"limits": limits})
    [near] = story.of(LimitNear)
    assert (near.limit, near.of_job) == ("max_tokens", False)
    assert near.text.startswith("800 of the 1,000 tokens that you may use up here are gone (max_tokens).")
    texts = [[message.text for message in request.messages] for request in model.requests]
    assert [near.text in one for one in texts] == [False, False, True, True, True]
    assert texts[4][: len(texts[3])] == texts[3]
    assert ends(story) == ("done", "GOAL", "done", False)


def test_an_agent_that_gets_a_job_near_its_limit_is_told_before_its_first_turn() -> None:
    replies: dict[str, Sequence[Said]] = {
        "lead": [calls(handing_over("h", "other"), tokens=90)],
        "other": [look(1), said("briefly")],
    }
    first = {"handoffs": ["other"], "limits": {"job": {"max_tokens": 100}}}
    story, model = told(replies, first, {"name": "other"})
    [near] = story.of(LimitNear)
    assert (near.leg, near.of_job) == (2, True)
    asked = model.asked("other")
    assert asked[0].messages[-1].text.endswith(near.text)
    assert asked[1].messages[: len(asked[0].messages)] == asked[0].messages


def test_a_worker_that_dies_behind_the_warning_changes_nothing_of_what_is_asked() -> None:
    limits = {"max_turns": 5}
    story, model = told({"lead": [*map(look, range(4)), said("done")]}, {"limits": limits})
    cut = next(at for at, record in enumerate(story.records) if isinstance(record, LimitNear)) + 1
    again = Replies({"lead": [*map(look, range(4)), said("done")]})

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team({"name": "lead", "limits": limits}), again, tools=[LOOK])
        job = await relay.submit("do it", agent="lead")
        await relay.step()
        dead = await claimed(stores, job, owner="dead", lease_s=0.0)
        begun = story.records[:cut][len(await stores.jobs.journal(job)) :]
        await stores.jobs.append(dead.lease, "t", begun, used_ms=1, is_progress=True)
        await relay.drain()
        return await relay.story(job)

    resumed = on_server(scenario)
    assert len(resumed.of(LimitNear)) == 1
    assert len(resumed.of(ModelReplied)) == 5
    assert again.requests[-1].messages == model.requests[-1].messages
