import json

import pytest

from ekiden.shared.handoff import HandoffContext, History, first_context
from ekiden.shared.relay.message import outbox, queue_for

JOB = "abcdefghij234567.1"
MB = 1_000_000


def handed_over(reason: str = "the cause is known", **fields: object) -> HandoffContext:
    lead = first_context(JOB).advance("lead", "routed by rule", is_route=True)
    return lead.advance("代码修复", reason, **fields)  # type: ignore[arg-type]  # fields by name


def test_the_route_is_no_handoff_and_comes_from_the_user() -> None:
    routed = first_context(JOB).advance("lead", "routed by rule", is_route=True)
    assert (routed.from_agent, routed.to_agent) == ("user", "lead")
    assert routed.metadata.handoff_chain == ("user", "lead")
    assert routed.metadata.chain_depth == 0


def test_each_handoff_makes_the_chain_one_longer_and_one_deeper() -> None:
    context = handed_over().advance("reviewer", "fixed")
    assert (context.from_agent, context.to_agent) == ("代码修复", "reviewer")
    assert context.metadata.handoff_chain == ("user", "lead", "代码修复", "reviewer")
    assert context.metadata.chain_depth == 2


def test_every_handoff_has_an_id_of_its_own_and_the_jobs_correlation_and_trace() -> None:
    first = first_context(JOB)
    first = first.model_copy(update={"metadata": first.metadata.model_copy(update={"traceparent": "00-ab-cd-01"})})
    context = first.advance("a", "x", is_route=True).advance("b", "y")
    assert context.metadata.handoff_id != first.metadata.handoff_id
    assert context.metadata.correlation_id == JOB
    assert context.metadata.traceparent == "00-ab-cd-01"


def test_what_one_agent_was_given_is_not_passed_on_to_the_next_but_one() -> None:
    context = handed_over(context="secret", summary="s", payload={"a": 1}, history=History(mode="last", last=2))
    following = context.advance("reviewer", "fixed")
    assert (following.context, following.summary, following.payload) == (None, None, None)
    assert following.history == History()


def test_the_encoded_form_is_read_back() -> None:
    context = handed_over(context="看", payload={"文件": ["a.py"], "none": None})
    assert HandoffContext.decode(context.encode()) == context


def test_a_short_context_goes_into_the_message_whole() -> None:
    context = handed_over(context="cart.py:7", summary="looked", payload={"files": ["a"]})
    assert context.for_wire() is context


@pytest.mark.parametrize("text", ["x", "修", "🐛", '"', "\\", "\x00"], ids=ascii)
@pytest.mark.parametrize("length", [20, 39, 60, 120, 237, 400, MB])
def test_the_queue_message_stays_under_4_kb_whatever_is_handed_over(text: str, length: int) -> None:
    long = text * length
    context = handed_over(long, context=long, summary=long, payload={"notes": [long]})
    message = outbox(JOB, 1, queue_for(context.to_agent), context).message
    assert len(message.encode()) < 4_096
    pushed = message.replace("\x01", "1").replace("\x02", "1700000000000")  # what the commit script puts in
    assert json.loads(pushed)["properties"]["delivery_info"]["routing_key"] == "ekiden.agent.代码修复"


def test_long_fields_are_left_out_of_the_message_and_named() -> None:
    context = handed_over("r" * MB, context="c" * MB, summary="short", payload={"p": "p" * MB})
    wire = context.for_wire()
    assert wire.elided == ("reason", "context", "payload")
    assert (wire.context, wire.payload, wire.summary) == (None, None, "short")
    assert wire.reason == "r" * 20 + "…"
    assert wire.metadata == context.metadata
    assert len(context.encode()) > 3 * MB
