"""Workers that die between a judgement and its effect: at each place, with each policy, it is judged and asked once."""

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.shared.records import (
    ApprovalAsked,
    Guarded,
    GuardJudged,
    HandedOff,
    LegStarted,
    LegSuspended,
    Record,
    Repairing,
)
from tests.scenarios.relay import Story
from tests.unit.workers.helped import judged, story_of
from tests.unit.workers.world import Said, call, calls, handing_over, said

BY_HAND = (Guarded, GuardJudged, Repairing)
ASKS = [calls(call("c1", "delegate_to_b", objective="look")), said("ok")]
TURNS: dict[str, Sequence[Said]] = {
    "input": [said("ok")],
    "output": [said("You fool.")],
    "tool_input": [calls(call("c1", "put", what="x")), said("ok")],
    "tool_output": [calls(call("c1", "look", what="x")), said("ok")],
    "delegation": ASKS,
    "handoff": [calls(handing_over("c1", "b")), said("ok")],
}
REPAIRED = {"tool_input": said('{"what": "ink"}'), "handoff": said('{"reason": "so"}')}
POLICIES = {
    place: ["reject", "warn"]
    + ["repair"] * (place != "input")
    + ["ask"] * (place in ("output", "tool_input", "handoff"))
    for place in TURNS
}


def told(place: str, policy: str, **more: Any) -> Story:
    return story_of(
        {"name": "kind", "prompt": "It scolds nobody.", "on": place, "policy": policy},
        *TURNS[place],
        agent={"subagents": ["b"], "handoffs": ["b"]},
        others=[{"name": "b"}],
        of_others={"b": [said("from b")]},
        **more,
    )


def before_crash(records: Sequence[Record], judgement: Record) -> list[Record]:
    """What the worker had recorded when it died right behind a judgement: what the leg's first claim has written."""
    behind = records[: records.index(judgement) + 1]
    first = next(place for place, one in enumerate(behind) if isinstance(one, LegStarted) and one.leg == 1)
    return [one for one in behind[first + 1 :] if not isinstance(one, HandedOff)]


@pytest.mark.parametrize(("place", "policy"), [(place, policy) for place in TURNS for policy in POLICIES[place]])
def test_whoever_goes_on_judges_and_repairs_nothing_again(place: str, policy: str) -> None:
    helped = {"judgements": [judged(0.9), judged(0.0)], "repairs": [REPAIRED.get(place, said("Look again."))]}
    whole = told(place, policy, **helped)
    made = [record for record in whole.records if isinstance(record, BY_HAND)]
    assert made
    assert isinstance(made[-1], Guarded)
    if place == "delegation":  # that leg has had a child: what it recorded is not its first claim's
        made = []
    for number, judgement in enumerate(made, 1):
        lost = before_crash(whole.records, judgement)
        if place == "tool_output" and isinstance(judgement, Guarded):
            continue  # it is written with the result, in one step
        asked = sum(isinstance(one, GuardJudged) for one in lost)
        tried = sum(isinstance(one, Repairing) for one in lost)
        story = told(
            place, policy, lost=lost, judgements=helped["judgements"][asked:], repairs=helped["repairs"][tried:]
        )
        again = [record for record in story.records if isinstance(record, BY_HAND)]
        assert [type(one) for one in again] == [type(one) for one in made], (number, judgement)
        assert (story.view.status, story.view.reason, story.chain) == (
            whole.view.status,
            whole.view.reason,
            whole.chain,
        )
        assert len(story.of(ApprovalAsked)) == len(whole.of(ApprovalAsked)) == (policy == "ask")
        assert len(story.of(LegSuspended)) == len(whole.of(LegSuspended))


def test_a_tool_runs_once_where_the_worker_dies_while_its_result_is_judged() -> None:
    ran: list[str] = []
    turn = calls(call("c1", "put", what="x"))
    rail = {"name": "kind", "prompt": "It scolds nobody.", "on": "tool_output"}
    whole = story_of(rail, turn, said("ok"), judgements=[judged(0.0)], ran=ran)
    lost = before_crash(whole.records, whole.of(GuardJudged)[0])
    story = story_of(rail, turn, said("ok"), judgements=[], lost=lost, ran=ran)
    assert (ran, story.view.status) == (["c1"], "done")
    assert "Outcome unknown: the worker was lost while this tool ran" in story.results["c1"]
