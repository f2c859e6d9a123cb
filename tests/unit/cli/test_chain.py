"""The chain of a job, with how long each agent had it."""

from dispatcher.cli.chain import hops_of
from shared.handoff import first_context
from shared.records import Ended, Entry, HandedOff, JobRequested

ROUTE = first_context("job").advance("debugger", "routed by rule", is_route=True)
HANDOFF = ROUTE.advance("reviewer", "done")


def test_a_hop_lasts_until_the_next_one_and_the_last_until_the_end() -> None:
    entries = [
        Entry(seq=1, at_ms=0, record=JobRequested(prompt="x")),
        Entry(seq=2, at_ms=10, record=HandedOff(context=ROUTE)),
        Entry(seq=3, at_ms=35, record=HandedOff(context=HANDOFF, call_id="c")),
        Entry(seq=4, at_ms=100, record=Ended(status="done", reason="GOAL")),
    ]
    hops = hops_of(entries)
    assert [(hop.from_agent, hop.to_agent, hop.duration_ms) for hop in hops] == [
        ("user", "debugger", 25),
        ("debugger", "reviewer", 65),
    ]
    assert [hop.duration_ms for hop in hops_of(entries[:3])] == [25, None]
    assert hops_of(entries[:1]) == []
