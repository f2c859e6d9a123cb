"""What a job's journal teaches: one row for each way that a job can go."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.dispatcher.learning.journals import is_teachable, lesson_in
from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.shared.messages import Message, TextPart, ToolResult
from ekiden.shared.records import (
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    ModelReplied,
    Record,
    Routed,
    RoutingStage,
    ToolFinished,
    ToolStarted,
    Unrouted,
)

JOB = "abcdefghijklmnop.1"
ASKED = "Where is my invoice?"


@dataclass
class Journal:
    """Writes the journal of a job, a step after the other."""

    request: JobRequested = field(default_factory=lambda: JobRequested(prompt=ASKED, by="ann"))
    records: list[Record] = field(default_factory=list)
    context: HandoffContext = field(default_factory=lambda: first_context(JOB))
    leg: int = 0

    def routed(
        self, agent: str, confidence: float = 60.0, stage: str = "semantic", stages: tuple[RoutingStage, ...] = ()
    ) -> "Journal":
        self.records.append(Routed(agent=agent, stage=stage, score=1, confidence=confidence, stages=stages))
        return self._moved(agent, None)

    def handed(self, agent: str, call_id: str | None = "c1", kind: Any = "handoff") -> "Journal":
        return self._moved(agent, call_id, kind)

    def called(self, tool: str = "read_file") -> "Journal":
        self.records.append(ToolStarted(leg=self.leg, call_id="t1", name=tool))
        return self

    def read_untrusted(self) -> "Journal":
        result = ToolResult(call_id="t1", name="web_fetch", content="ignore that")
        self.records.append(ToolFinished(leg=self.leg, result=result, untrusted="a page"))
        return self

    def ended(self, status: Any = "done", reason: str = "GOAL") -> list[Entry]:
        said = Message(role="model", parts=(TextPart(text="Here."),))
        self.records.append(ModelReplied(leg=self.leg, turn=1, message=said))
        self.records.append(Ended(leg=self.leg, status=status, reason=reason, answer="Here."))
        return self.entries()

    def unrouted(self, *stages: RoutingStage) -> list[Entry]:
        self.records.append(Unrouted(why="nobody", agents=("billing",), stages=stages))
        self.records.append(Ended(status="failed", reason="NO_ROUTE", error="nobody"))
        return self.entries()

    def entries(self) -> list[Entry]:
        return [Entry(seq=n, at_ms=1_000, record=one) for n, one in enumerate([self.request, *self.records], 1)]

    def _moved(self, agent: str, call_id: str | None, kind: Any = "route") -> "Journal":
        self.context = self.context.advance(agent, "because", is_route=self.leg == 0)
        kind = "route" if self.leg == 0 else kind
        self.records.append(HandedOff(leg=self.leg, context=self.context, call_id=call_id, kind=kind))
        self.leg += 1
        return self


def named(agent: str, prompt: str = ASKED) -> Journal:
    journal = Journal(JobRequested(prompt=prompt, agent=agent, by="ann"))
    return journal.routed(agent, 100, "agent")


def asked(prompt: str) -> Journal:
    return Journal(JobRequested(prompt=prompt))


OPEN = RoutingStage(stage="semantic", agent="sales", note="looks like no agent's work")
FOUND = RoutingStage(stage="semantic", agent="sales", decided=True)
AWAY = (FOUND, RoutingStage(stage="played", agent="billing", decided=True))
UNTRUSTED = Journal(JobRequested(prompt=ASKED, untrusted="a page"))
ROUTED = {
    "an unsure router whose agent answered": (Journal().routed("billing").ended(), ("billing", "answered")),
    "the same with work": (Journal().routed("billing").called().ended(), ("billing", "answered")),
    "a sure router": (Journal().routed("billing", 90).ended(), None),
    "another agent stood in for the one that was found": (Journal().routed("billing", stages=AWAY).ended(), None),
    "the default agent answered": (Journal().routed("desk", 0, "fallback").ended(), None),
    "chosen by what was said before": (Journal().routed("billing", 60, "session").ended(), None),
    "handed on untouched": (Journal().routed("desk", 95).handed("billing").ended(), ("billing", "passed_on")),
    "handed on by the default agent": (
        Journal().routed("desk", 0, "fallback").handed("billing").ended(),
        ("billing", "passed_on"),
    ),
    "handed on twice, untouched": (
        Journal().routed("desk").handed("sales").handed("billing").ended(),
        ("billing", "passed_on"),
    ),
    "handed on untouched, then after work": (
        Journal().routed("desk").handed("billing").called().handed("reviewer").ended(),
        ("billing", "passed_on"),
    ),
    "handed on after work": (Journal().routed("debugger").called().handed("fixer").ended(), None),
    "handed on by its file": (Journal().routed("fixer").handed("reviewer", None).ended(), None),
    "handed back": (Journal().routed("desk").handed("billing").handed("desk").ended(), None),
    "returned": (
        Journal().routed("desk").handed("billing").handed("desk", None, "return").ended(),
        ("billing", "passed_on"),
    ),
    "failed": (Journal().routed("desk").handed("billing").ended("failed", "ERROR"), None),
    "cancelled": (Journal().routed("billing").ended("cancelled", "ABORTED"), None),
    "ended without its goal": (Journal().routed("billing").ended("done", "MAX_TURNS"), None),
    "not ended": (Journal().routed("billing").entries(), None),
    "refused": (Journal().unrouted(), None),
    "read a page of a stranger": (Journal().routed("billing").called().read_untrusted().ended(), None),
    "asked by who had": (UNTRUSTED.routed("billing").ended(), None),
    "a program called it": (
        Journal(JobRequested(prompt=ASKED, inputs={"id": 1})).routed("billing").ended(),
        None,
    ),
    "no journal": ([], None),
}


@pytest.mark.parametrize(("entries", "expected"), ROUTED.values(), ids=ROUTED)
def test_a_routed_request_belongs_to_the_first_that_worked_on_it(
    entries: list[Entry], expected: tuple[str, str] | None
) -> None:
    lesson = lesson_in(JOB, entries)

    assert (lesson and (lesson.agent, lesson.evidence)) == expected


REFUSED = asked(ASKED).unrouted()
MISROUTED = asked("  where is my\ninvoice ").routed("debugger", 95).ended("cancelled", "ABORTED")
NAMED = {
    "nobody was found before": (named("billing").ended(), REFUSED, "chosen"),
    "another agent got it before": (named("billing").ended(), MISROUTED, "named"),
    "and it went on to others after work": (named("billing").called().handed("x").ended(), MISROUTED, "named"),
    "nobody was found, though one was near": (named("billing").ended(), asked(ASKED).unrouted(OPEN), "chosen"),
    "who was found could not take it": (named("billing").ended(), asked(ASKED).unrouted(FOUND), None),
    "another stood in for who was found": (
        named("debugger").ended(),
        asked(ASKED).routed("billing", stages=AWAY).ended(),
        None,
    ),
    "no router had looked at it": (
        named("billing").ended(),
        asked(ASKED).unrouted(RoutingStage(stage="none", note="disabled")),
        None,
    ),
    "the same agent got it before": (named("debugger").ended(), MISROUTED, None),
    "nothing was asked before": (named("billing").ended(), None, None),
    "something else was asked before": (named("billing", "Please pay me back").ended(), REFUSED, None),
    "it was named before, too": (named("billing").ended(), named("debugger").ended(), None),
    "the agent hands it on at once": (named("billing").handed("sales").ended(), REFUSED, None),
    "it failed": (named("billing").ended("failed", "ERROR"), REFUSED, None),
}


@pytest.mark.parametrize(("entries", "before", "expected"), NAMED.values(), ids=NAMED)
def test_an_agent_that_the_user_names_counts_where_it_corrects(
    entries: list[Entry], before: list[Entry] | None, expected: str | None
) -> None:
    lesson = lesson_in(JOB, entries, before)

    assert (lesson and lesson.evidence) == expected
    assert lesson is None or lesson.agent == "billing"


def test_a_lesson_tells_where_it_comes_from() -> None:
    lesson = lesson_in(JOB, asked("  Where is\n my invoice? ").routed("billing").ended(), user="bob")

    assert lesson is not None
    assert (lesson.text, lesson.user, lesson.job, lesson.at_ms) == ("Where is my invoice?", "bob", JOB, 1_000)
    assert lesson.state == "new"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my invoice?", True),
        ("修复失败的测试", True),
        ("¿Dónde está mi factura?", True),
        ("ok", False),
        ("继续", False),
        ("1 2 3", False),
        ("fix it " * 100, False),
        ("my password=hunter2hunter2 is refused", False),
    ],
)
def test_what_says_nothing_is_long_or_holds_a_secret_is_no_example(text: str, expected: bool) -> None:
    assert is_teachable(text) is expected
