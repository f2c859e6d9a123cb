from ekiden.shared.handoff import Frame, HandoffContext, History, first_context

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


def test_a_return_takes_agents_off_the_chain_but_none_off_the_depth() -> None:
    lead = first_context(JOB).advance("lead", "routed by rule", is_route=True)
    frame = Frame(agent="lead", leg=1, call_id="c", from_agent="user", chain_length=2)
    back = lead.advance("helper", "please", call=frame).come_back("done", is_error=False, upto=3)
    assert (back.metadata.handoff_chain, back.metadata.chain_depth) == (("user", "lead"), 1)


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
