"""Who answers what a job asks that is played again: persons say what they said then, and nothing else."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from ekiden.dispatcher.local.playing import answered, decisions_in
from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.errors import ApprovalGone, NotAnApprover
from ekiden.shared.records import Decided, Entry

ID = "abcdefghijklmnop.1:1"


class Inbox:
    """Takes answers, or refuses them."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.taken: dict[str, Answer] = {}
        self._refusal = refusal

    async def answer(self, id: str, answer: Answer) -> ApprovalView:  # noqa: A002  # as the client has it
        if self._refusal is not None:
            raise self._refusal
        self.taken[id] = answer
        return asked()


def asked(digest: str = "d") -> ApprovalView:
    return ApprovalView(ID, ID.partition(":")[0], 1, "a", "", "c", "bash", {}, digest)


def said(
    status: Literal["approved", "denied", "answered", "expired"] = "approved", **more: Any
) -> Mapping[str, Decided]:
    record = Decided(id=ID, call_id="c", tool="bash", digest="d", status=status, **more)
    return decisions_in({"abcdefghijklmnop.1": [Entry(7, 0, record)]})


def answer(inbox: Inbox, decided: Mapping[str, Decided], view: ApprovalView | None = None) -> bool:
    return asyncio.run(answered(inbox, [view or asked()], decided))


def test_what_a_person_said_is_said_again() -> None:
    inbox = Inbox()
    assert answer(inbox, said(by="洋子", why="it is fine", edited={"command": "ls"}, always_for_job=True))
    given = inbox.taken[ID]
    assert (given.status, given.by, given.why, given.edited) == ("approved", "洋子", "it is fine", {"command": "ls"})
    assert given.always_for_job


def test_where_nobody_answered_in_time_the_call_is_denied_at_once() -> None:
    inbox = Inbox()
    assert answer(inbox, said("expired", why="nobody answered"))
    assert (inbox.taken[ID].status, inbox.taken[ID].why) == ("denied", "nobody answered")


@pytest.mark.parametrize("view", [asked("another call"), None])
def test_what_nobody_was_asked_then_gets_no_answer(view: ApprovalView | None) -> None:
    inbox = Inbox()
    assert not answer(inbox, said() if view else {}, view)
    assert inbox.taken == {}


def test_an_answer_that_is_not_taken_any_more_is_no_failure_and_one_that_may_not_be_given_is() -> None:
    assert answer(Inbox(ApprovalGone("gone")), said())
    assert not answer(Inbox(NotAnApprover("no")), said())
