"""A made-up family of jobs: an agent that is refused, calls two others at once and one that comes back, and hands on.

The job is ``lead``'s: it calls ``scout`` (which hands over to ``helper`` and calls ``digger``) and ``tester`` (which
fails), is given control back by ``checker``, and ``reviewer`` ends the job because lead's file says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ekiden.shared.handoff import Frame, HandoffContext, first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult, Usage
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    HandedOff,
    JobRequested,
    LegStarted,
    LegSuspended,
    ModelReplied,
    Nudged,
    Record,
    Refused,
    Routed,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolStarted,
)

ROOT = "abcdefghijklmnop.1"
BEGIN_MS = 1_795_000_000_000
SCOUT, TESTER, DIGGER = f"{ROOT}.1", f"{ROOT}.2", f"{ROOT}.1.1"


@dataclass
class Names:
    """What the agents are called, and what they say: some tests make it hostile."""

    lead: str = "lead"
    scout: str = "scout"
    tester: str = "tester"
    digger: str = "digger"
    helper: str = "helper"
    checker: str = "checker"
    reviewer: str = "reviewer"
    reason: str = "bug identified at line 42"
    objective: str = "look at the logs"
    result: str = "found it\nin line 42"


@dataclass
class _Written:
    """A journal in the making; the clock of all is the same."""

    entries: list[Entry] = field(default_factory=list)

    def add(self, at_ms: int, *records: Record) -> None:
        first = len(self.entries) + 1
        self.entries += [
            Entry(seq=seq, at_ms=BEGIN_MS + at_ms, record=record) for seq, record in enumerate(records, first)
        ]


def family(names: Names | None = None) -> dict[str, list[Entry]]:
    """The journals of all four jobs, parents first."""
    names = names or Names()
    root, scout, tester, digger = (_Written() for _ in range(4))
    route = first_context(ROOT).advance(names.lead, "routed by rule", is_route=True)
    _route(root, names, route)
    begin = route.advance(names.scout, names.objective).model_copy(update={"calls": ()})
    root.add(
        2_000,
        _reply(1, names.lead, _call("s1", "delegate_to_scout"), _call("t1", "delegate_to_tester"), cost_usd=0.001),
        Delegated(leg=1, call_id="s1", child=SCOUT, agent=names.scout, objective=names.objective),
        Delegated(leg=1, call_id="t1", child=TESTER, agent=names.tester, objective="run the tests"),
        LegSuspended(leg=1, cause="children", delay_s=0, detail=f"{names.scout}, {names.tester}"),
    )
    _scout(scout, digger, names, begin)
    failing = route.advance(names.tester, "run the tests")
    tester.add(2_000, JobRequested(prompt="run the tests", agent=names.tester), HandedOff(context=failing))
    tester.add(2_200, LegStarted(leg=1, agent=names.tester, attempt=1, worker="w3"))
    tester.add(5_000, Ended(leg=1, status="failed", reason="TIMEOUT", error="too slow\nby far"))
    _go_on(root, names, route)
    return {ROOT: root.entries, SCOUT: scout.entries, TESTER: tester.entries, DIGGER: digger.entries}


def _route(root: _Written, names: Names, route: HandoffContext) -> None:
    root.add(0, JobRequested(prompt="it fails", state={"ticket": 7}))
    root.add(100, LegStarted(agent="router", attempt=1, worker="w0"))
    root.add(
        1_000,
        Routed(agent=names.lead, stage="rule", score=27, confidence=27),
        HandedOff(context=route),
        LegStarted(leg=1, agent=names.lead, attempt=1, worker="w1"),
        _reply(1, names.lead, _call("x1", "transfer_to_x"), cost_usd=0.0005),
        Refused(leg=1, call_id="x1", name="transfer_to_x", code="UNKNOWN_AGENT", message="Not executed.\nadvice"),
    )


def _scout(scout: _Written, digger: _Written, names: Names, begin: HandoffContext) -> None:
    on = begin.advance(names.helper, names.reason)
    scout.add(2_000, JobRequested(prompt=names.objective, agent=names.scout), HandedOff(context=begin))
    scout.add(2_100, LegStarted(leg=1, agent=names.scout, attempt=1, worker="w2"))
    scout.add(
        2_500,
        _reply(1, names.scout, _call("h1", "transfer_to_helper")),
        HandedOff(leg=1, context=on, call_id="h1"),
        LegStarted(leg=2, agent=names.helper, attempt=1, worker="w2"),
        _reply(2, names.helper, _call("d1", "delegate_to_digger")),
        Delegated(leg=2, call_id="d1", child=DIGGER, agent=names.digger, objective="dig"),
        LegSuspended(leg=2, cause="children", delay_s=0, detail=names.digger),
    )
    digger.add(2_500, JobRequested(prompt="dig", agent=names.digger))
    digger.add(2_500, HandedOff(context=on.advance(names.digger, "dig")))
    digger.add(2_600, LegStarted(leg=1, agent=names.digger, attempt=1, worker="w4"))
    digger.add(2_700, _reply(1, names.digger), Ended(leg=1, status="done", reason="GOAL", answer="dug"))
    scout.add(2_800, LegStarted(leg=2, agent=names.helper, attempt=1, worker="w2"), _result(2, "d1", "dug"))
    scout.add(3_000, _reply(2, names.helper), Ended(leg=2, status="done", reason="GOAL", answer=names.result))


def _go_on(root: _Written, names: Names, route: HandoffContext) -> None:
    frame = Frame(agent=names.lead, leg=1, call_id="c1", from_agent="user", chain_length=2)
    called = route.advance(names.checker, names.reason, call=frame)
    back = called.come_back("looks fine\nreally", is_error=False, upto=20)
    on = back.advance(names.reviewer, "completed: after the fix")
    root.add(
        5_100,
        LegStarted(leg=1, agent=names.lead, attempt=1, worker="w1"),
        _result(1, "s1", names.result),
        _result(1, "t1", "ended without a result", is_error=True),
        _reply(1, names.lead, _call("c1", "transfer_to_checker")),
        HandedOff(leg=1, context=called, call_id="c1"),
    )
    root.add(5_500, LegStarted(leg=2, agent=names.checker, attempt=1, worker="w1"))
    root.add(5_600, Summarised(leg=2, text="so far so good", usage=Usage(input_tokens=50), model="m", cost_usd=0.01))
    root.add(6_000, _reply(2, names.checker), HandedOff(leg=2, context=back))
    root.add(
        6_100,
        LegStarted(leg=3, agent=names.lead, attempt=1, worker="w1"),
        Nudged(leg=3, text="you only wrote it"),
        ToolStarted(leg=3, call_id="n1", name="set_state"),
        StateChanged(leg=3, changes={"ticket": None, "done": [1, "zwei"]}, by="set_state"),
        _result(3, "n1", "noted", name="set_state"),
        HandedOff(leg=3, context=on),
    )
    root.add(6_500, LegStarted(leg=4, agent=names.reviewer, attempt=1, worker="w1"))
    root.add(7_000, _reply(4, names.reviewer), Ended(leg=4, status="done", reason="GOAL", answer="All is well."))


def _call(call_id: str, name: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, args={"objective": "x"})


def _reply(leg: int, text: str, *calls: ToolCall, cost_usd: float | None = None) -> ModelReplied:
    parts: Sequence[TextPart | ToolCall] = calls or (TextPart(text=f"{text} says so"),)
    usage = Usage(input_tokens=100, output_tokens=10)
    message = Message(role="model", parts=tuple(parts))
    return ModelReplied(leg=leg, turn=1, message=message, usage=usage, model="scripted", cost_usd=cost_usd)


def _result(leg: int, call_id: str, content: str, *, name: str = "delegate", is_error: bool = False) -> ToolFinished:
    return ToolFinished(leg=leg, result=ToolResult(call_id=call_id, name=name, content=content, is_error=is_error))
