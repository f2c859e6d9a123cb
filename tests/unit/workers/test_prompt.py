"""The texts themselves."""

import pytest

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.workers.prompt import (
    MAX_FILLED,
    MAX_INPUT,
    MAX_QUOTED,
    MAX_REASON,
    brief,
    instructions_for,
    parting,
    task,
    transcript,
)
from tests.scenarios.relay import team


def handed_over(**fields: object) -> HandoffContext:
    lead = first_context("abcdefghij234567.1").advance("lead", "route", is_route=True)
    return lead.advance("fixer", "the cause is known").model_copy(update=fields)


def agent(prompt: str, **fields: object) -> AgentDefinition:
    return team({"name": "lead", "prompt": prompt, **fields}).definition("lead")


TEAM = "You are one agent of a team"


def test_the_instructions_are_the_agents_file_its_targets_and_how_to_work_in_a_team() -> None:
    assert instructions_for(agent("\n\nYou lead.\n")).startswith(f"You lead.\n\n{TEAM}")
    both = instructions_for(agent("You lead."), None, "Available: helper.\n")
    assert both.startswith(f"You lead.\n\nAvailable: helper.\n\n{TEAM}")
    assert instructions_for(agent("")).startswith(TEAM)


INPUTS = {
    "objective": {"type": "string", "required": True},
    "depth": {"type": "integer", "default": 3},
    "files": {"type": "array"},
}


@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("Do ${objective} now.", "Do it now."),
        ("${depth} and ${files}", '3 and ["a", "文"]'),
        ("${unknown} ${other.name} $objective ${} $${objective}", "${unknown} ${other.name} $objective ${} $it"),
    ],
)
def test_declared_inputs_take_the_place_of_their_names_and_nothing_else_does(prompt: str, filled: str) -> None:
    given = {"objective": "it", "files": ["a", "文"], "unknown": "never", "other.name": "never"}
    assert instructions_for(agent(prompt, inputs=INPUTS), given).startswith(f"{filled}\n\n{TEAM}")


def test_an_input_that_was_not_given_and_has_no_default_leaves_its_place_as_it_is() -> None:
    text = instructions_for(agent("${objective} ${depth}", inputs=INPUTS))
    assert text.startswith("${objective} 3\n")


def test_the_objective_is_an_input_of_every_agent_that_declares_none() -> None:
    assert instructions_for(agent("Now ${objective}."), {"objective": "count", "x": 1}).startswith("Now count.\n")


def test_what_looks_like_a_place_in_an_input_is_none() -> None:
    given = {"objective": r"${files} \1 \g<0>", "files": ["secret"]}
    text = instructions_for(agent("${objective}", inputs=INPUTS), given)
    assert text.startswith("${files} \\1 \\g<0>\n")


def test_an_input_that_stands_in_very_many_places_fills_the_first_of_them() -> None:
    lead = agent("${text} " * 10_000 + "end", inputs={"text": {"type": "string"}})
    filled = instructions_for(lead, {"text": "x" * 90_000})

    assert filled.startswith("x" * 90_000 + " ")
    assert "[cut: the first 40,000 of 90,000 characters] [cut] [cut]" in filled
    assert len(filled) < MAX_FILLED + 100_000
    assert "[cut] end" in filled


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
