"""The texts themselves."""

import pytest

from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.shared.instructions import MAX_INPUT, MAX_QUOTED
from ekiden.workers.prompt import (
    MAX_REASON,
    brief,
    parting,
    task,
    transcript,
)


def handed_over(**fields: object) -> HandoffContext:
    lead = first_context("abcdefghij234567.1").advance("lead", "route", is_route=True)
    return lead.advance("fixer", "the cause is known").model_copy(update=fields)


def test_the_brief_says_who_hands_over_why_and_with_what() -> None:
    context = handed_over(context="cart.py:7", summary="looked around", payload={"文件": ["cart.py"]})
    lines = brief(context).splitlines()
    assert lines[1:-2] == [
        "From agent: lead",
        "Chain: user -> lead -> fixer",
        "Reason: the cause is known",
        "Summary: looked around",
        "Context: cart.py:7",
        'Payload: {"文件": ["cart.py"]}',
    ]
    assert lines[-1].startswith("You have control now.")


def test_the_brief_leaves_out_what_was_not_given() -> None:
    text = brief(handed_over(summary="  "))
    assert "Summary" not in text
    assert "None" not in text


def test_of_fields_that_say_the_same_the_brief_has_one() -> None:
    text = brief(handed_over(reason="cart.py", summary="cart.py ", context="cart.py"))
    assert text.count("cart.py") == 1


@pytest.mark.parametrize(("field", "most"), [("reason", MAX_REASON), ("summary", MAX_REASON), ("context", MAX_QUOTED)])
def test_a_long_field_is_cut_and_said_to_be(field: str, most: int) -> None:
    text = brief(handed_over(**{field: "修" * 1_000_000}))
    assert f"{'修' * most} [cut: the first {most:,} of 1,000,000 characters]" in text
    assert len(text) < most + 500


def test_a_long_payload_is_cut_too() -> None:
    assert len(brief(handed_over(payload={"a": "x" * 1_000_000}))) < MAX_QUOTED + 500


def test_an_input_of_a_task_is_cut_only_where_it_is_very_long() -> None:
    assert "x" * MAX_INPUT in task({"text": "x" * MAX_INPUT}, agent="lead", fence="f0")
    assert "[cut: " in task({"text": "x" * (MAX_INPUT + 1)}, agent="lead", fence="f0")


def test_the_parting_words_leave_out_what_was_said() -> None:
    words = parting(handed_over(summary="It is 42.", context="see cart.py"), {"It is 42."})
    assert words.splitlines() == [
        "[handed over to fixer]",
        "Reason: the cause is known",
        "Summary: [said above]",
        "Context: see cart.py",
    ]


def test_who_said_nothing_is_not_quoted() -> None:
    assert transcript("lead", [], fence="f") == ""
