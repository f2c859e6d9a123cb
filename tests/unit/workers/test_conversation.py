"""What an agent reads before its own first turn of a leg."""

from collections.abc import Sequence
from typing import Any

import pytest

from shared.handoff import HandoffContext, History, first_context
from shared.messages import Message, ToolCall, ToolResult, user_message
from shared.records import (
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    ModelReplied,
    Noticed,
    Record,
    Refused,
    ToolFinished,
    ToolStarted,
)
from shared.relay.leg import Leg
from shared.stores.base import Claimed, Lease
from shared.stores.sessions import Said
from tests.unit.workers.world import call, calls, handing_over, said
from workers.conversation import opening, turns_of

JOB = "abcdefghij234567.1"


class Job:
    """A journal that is written by hand, and the leg that it leads to."""

    def __init__(self, first: str, prompt: str = "fix it") -> None:
        self.entries: list[Entry] = []
        self.context = first_context(JOB)
        self.leg = 0
        self.add(JobRequested(prompt=prompt))
        self._move(self.context.advance(first, "route", is_route=True, history=History(upto=1)), None)

    def add(self, *records: Record) -> None:
        for record in records:
            self.entries.append(Entry(seq=len(self.entries) + 1, at_ms=0, record=record))

    def turn(self, *made: ToolCall, text: str = "", results: bool = True) -> None:
        message = (calls(*made, text=text) if made else said(text)).message
        self.add(ModelReplied(leg=self.leg, turn=1, message=message))
        for one in made if results else ():
            self.add(ToolStarted(leg=self.leg, call_id=one.id, name=one.name), self.finished(one))

    def finished(self, made: ToolCall, **fields: Any) -> ToolFinished:
        result = ToolResult(call_id=made.id, name=made.name, content=f"result of {made.id}")
        return ToolFinished(leg=self.leg, result=result, **fields)

    def hand_over(self, to: str, call_id: str, history: History | None = None, text: str = "") -> None:
        self.turn(handing_over(call_id, to), text=text, results=False)
        upto = len(self.entries)
        history = (history or History()).model_copy(update={"upto": upto})
        self._move(self.context.advance(to, f"{to} should go on", history=history), call_id)

    def _move(self, context: HandoffContext, call_id: str | None) -> None:
        self.add(HandedOff(leg=self.leg, context=context, call_id=call_id))
        self.context = context
        self.leg += 1
        self.add(LegStarted(leg=self.leg, agent=context.to_agent, attempt=1, worker="w"))

    def opened(self, *earlier: Said) -> list[Message]:
        lease = Lease(JOB, self.leg, "1", "q")
        claimed = Claimed(lease, self.context, 1, len(self.entries), 0, "cat", "", stop=None)
        return opening(Leg(claimed, self.entries, None, earlier=list(earlier)))  # type: ignore[arg-type]  # nothing is stored


def texts(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def test_the_first_agent_reads_the_request_alone() -> None:
    assert texts(Job("lead", "修好它 🐛").opened()) == [("user", "修好它 🐛")]


def earlier(agent: str, text: str) -> Said:
    message = said(text).message if agent else user_message(text)
    return Said(JOB, agent, message)


def test_what_was_said_in_the_session_before_comes_first() -> None:
    before = [earlier("", "hi"), earlier("lead", "Hello."), earlier("", "who?"), earlier("helper", "Me.")]
    first, own, rest = Job("lead").opened(*before)
    assert (first.role, first.text) == ("user", "hi")
    assert (own.role, own.text) == ("model", "Hello.")
    assert rest.text.startswith("who?\n\n«fence ")
    assert "agent helper said»\nMe.\n" in rest.text
    assert rest.text.endswith("\n\nfix it")


@pytest.mark.parametrize("agent", ["lead", "helper"])
def test_a_session_whose_beginning_is_cut_off_begins_with_a_user_all_the_same(agent: str) -> None:
    before = [earlier(agent, "the answer to something"), earlier("", "hi"), earlier("lead", "Hello.")]
    assert [(one.role, one.text) for one in Job("lead").opened(*before)] == [
        ("user", "hi"),
        ("model", "Hello."),
        ("user", "fix it"),
    ]


def test_another_agents_turns_are_one_fenced_quotation_without_tools_and_thoughts() -> None:
    job = Job("lead")
    job.turn(call("c1", "look", what="secret"), text="I look.")
    job.turn(call("c2", "look"))
    job.hand_over("fixer", "c3", text="It is cart.py.")
    [message] = job.opened()
    fence = job.context.metadata.handoff_id
    assert message.role == "user"
    assert message.text.startswith(
        f"fix it\n\n«fence {fence}: agent lead said»\nI look.\n\nIt is cart.py.\n«end of fence {fence}»\n\n"
    )
    assert "secret" not in message.text
    assert "result of" not in message.text
    assert "From agent: lead" in message.text


def test_an_agent_that_comes_back_reads_its_own_turns_raw_and_the_others_fenced() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="I look.")
    job.hand_over("helper", "c2")
    job.turn(call("h1", "look"), text="Helping.")
    job.hand_over("lead", "h2", text="Helped.")
    request, first, first_results, second, second_results, back = job.opened()
    assert (request.role, request.text) == ("user", "fix it")
    assert [one.name for one in first.calls + second.calls] == ["look", "transfer_to_helper"]
    assert first_results.results[0].content == "result of c1"
    assert second_results.results[0].content == "Control moved to agent 'helper'."
    assert "agent helper said»\nHelping.\n\nHelped.\n" in back.text
    assert "From agent: helper" in back.text
    assert back.role == "user"


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(mode="all"), ["one", "two", "three", "four"]),
        (History(mode="none"), []),
        (History(mode="last", last=1), ["four"]),
        (History(mode="last", last=3), ["two", "three", "four"]),
        (History(mode="last", last=0), []),
        (History(mode="last", last=99), ["one", "two", "three", "four"]),
    ],
)
def test_the_handoff_says_how_many_turns_are_shared(history: History, expected: list[str]) -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="one")
    job.hand_over("helper", "c2", text="two")
    job.turn(call("h1", "look"), text="three")
    job.hand_over("writer", "h2", history, text="four")
    [message] = job.opened()
    assert [word for word in ("one", "two", "three", "four") if f"\n{word}\n" in message.text] == expected
    assert "From agent: helper" in message.text


def test_history_ends_at_the_handoff_whatever_was_recorded_since() -> None:
    job = Job("lead")
    job.hand_over("helper", "c1", text="before")
    before = job.opened()
    job.add(Noticed(leg=1, text="later"), ModelReplied(leg=1, turn=9, message=said("a stray").message))
    assert job.opened() == before


def test_a_crashed_legs_records_of_several_attempts_are_one_conversation() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="one", results=False)
    job.add(ToolStarted(leg=1, call_id="c1", name="look"), LegStarted(leg=1, agent="lead", attempt=2, worker="w2"))
    job.add(ToolStarted(leg=1, call_id="c1", name="look"), job.finished(call("c1", "look")))
    [turn] = turns_of(entry.record for entry in job.entries if entry.record.leg == 1)
    assert turn.started == {"c1"}
    assert turn.open_calls == []
    assert turn.answers["c1"].content == "result of c1"


def test_results_are_shown_in_call_order_and_forgotten_calls_not_at_all() -> None:
    made = [handing_over("t1", "nobody"), call("c1", "look"), handing_over("t2", "helper"), call("c2", "look")]
    job = Job("lead")
    job.turn(*made, results=False)
    job.add(job.finished(made[3]), job.finished(made[1]), job.finished(made[2], forgotten=True))
    job.add(Refused(leg=1, call_id="t1", name="transfer_to_nobody", code="UNKNOWN_AGENT", message="no"))
    [turn] = turns_of(entry.record for entry in job.entries if entry.record.leg == 1)
    message, results = turn.messages()
    assert [one.id for one in message.calls] == ["t1", "c1", "c2"]
    assert [(one.call_id, one.is_error) for one in results.results] == [("t1", True), ("c1", False), ("c2", False)]


def test_a_turn_whose_calls_are_not_answered_yet_says_which() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), call("c2", "look"), results=False)
    job.add(job.finished(call("c1", "look")))
    [turn] = turns_of(entry.record for entry in job.entries if entry.record.leg == 1)
    assert [one.id for one in turn.open_calls] == ["c2"]
