"""A long session stays within its agent's window: a snapshot stands for its first jobs, and is written once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Message, SessionPart, user_message
from ekiden.shared.records import Ended, Summarised
from ekiden.shared.relay.outcome_records import messages_in
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.sessions import MAX_MESSAGES, SessionMessage
from ekiden.workers.compression import COMPRESSOR
from tests.scenarios.relay import Relay, assert_well_formed, on_server, team, text_of
from tests.unit.workers.journal import JOB, Job
from tests.unit.workers.test_compression import WINDOW, size_of, snapshot
from tests.unit.workers.world import said

BOB = {"name": "bob", "triggers": {"keywords": ["bob"]}}
TEAM = ({"name": "solo"}, BOB)


class Chatting:
    """Agents that answer at length, and a model that writes snapshots."""

    def __init__(self, answer: ModelReply | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self._answer = answer

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        assert_well_formed(request)
        self.requests.append(request)
        if request.agent == COMPRESSOR:
            return self._answer or said(snapshot(f"snapshot {len(self.asked(COMPRESSOR))}"))
        return said(f"answer of {request.agent}: " + " ".join(map(str, range(200))))

    def asked(self, agent: str) -> list[ModelRequest]:
        return [request for request in self.requests if request.agent == agent]


def chat(to: Sequence[str | None], model: Chatting, agents: Sequence[Mapping[str, Any]] = TEAM) -> list[list[str]]:
    """Run jobs of one session, each for an agent by name, or for whom it is routed to; return their snapshots."""

    async def scenario(stores: Stores) -> list[list[str]]:
        relay = Relay(stores, team(*agents), model, window=WINDOW)
        session, found = None, []
        for number, agent in enumerate(to, 1):
            job = await relay.submit(f"request {number} of bob", agent=agent, session=session)
            await relay.drain()
            session = job.partition(".")[0]
            story = await relay.story(job)
            assert story.view.status == "done"
            found.append([record.text for record in story.of(Summarised)])
        assert session is not None
        messages = await stores.sessions.messages(session, limit=None)
        assert [one.message.text for one in messages][:1] == ["request 1 of bob"], "what was said is never rewritten"
        return found

    return on_server(scenario)


def test_its_first_jobs_are_summed_up_once_and_not_again_by_each_job() -> None:
    model = Chatting()
    made = chat(["solo"] * 30, model)
    number = len(model.asked(COMPRESSOR))
    assert sum(map(len, made)) == number
    assert 2 <= number <= 4
    asked = model.asked("solo")
    assert max(map(size_of, asked)) < WINDOW * 0.6
    last = text_of(asked[-1].messages)
    assert snapshot(f"snapshot {number}") in last
    assert "Left out" not in last
    assert "request 29 of bob" in last
    assert "request 1 of bob" not in last
    assert snapshot("snapshot 1") in model.asked(COMPRESSOR)[1].messages[0].text, "the next one takes it in"
    assert "request 1 of bob" not in model.asked(COMPRESSOR)[1].messages[0].text


def test_what_is_routed_is_summed_up_for_all_who_are_told_of_it() -> None:
    model = Chatting()
    chat([None] * 16 + ["solo", None], model)
    [named, routed] = model.asked("solo")[0], model.asked("bob")[-1]
    assert "snapshot" not in text_of(named.messages), "what others were asked is none of its business"
    assert snapshot("snapshot 1") in text_of(routed.messages)
    assert len(model.asked(COMPRESSOR)) == 1


def test_nobody_reads_in_a_snapshot_what_was_said_to_another_agent() -> None:
    model = Chatting()
    made = chat(["solo"] * 18 + [None], model)
    assert sum(map(len, made)) == 1
    [routed] = model.asked("bob")
    assert "snapshot" not in text_of(routed.messages)
    assert "answer of solo" not in text_of(routed.messages)


def test_without_a_snapshot_the_oldest_is_left_out() -> None:
    model = Chatting(said("I would rather not."))
    made = chat(["solo"] * 20, model)
    assert "Left out for want of room" in text_of(model.asked("solo")[-1].messages)
    assert made[-1] == [""], "one try in each job"


@pytest.mark.parametrize(("later", "is_told"), [(MAX_MESSAGES // 2 - 1, False), (MAX_MESSAGES // 2, True)])
def test_a_snapshot_is_told_on_before_it_is_too_long_ago_to_be_read(later: int, is_told: bool) -> None:
    part = SessionPart(before=3, agent="solo", text=snapshot("snapshot 1"))
    request = user_message("x").model_copy(update={"snapshots": (part,)})
    earlier = [SessionMessage(JOB, "", request), *[SessionMessage(JOB, "", user_message("y"))] * later]
    leg = Job("solo", earlier=earlier).leg_now
    [said_, _] = map(Message.model_validate_json, messages_in(leg, Ended(status="done", reason="GOAL", answer="ok")))
    assert said_.snapshots == ((part,) if is_told else ())
