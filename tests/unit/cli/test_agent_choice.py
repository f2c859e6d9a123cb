"""What the answer to "who takes it?" may be."""

import pytest

from ekiden.dispatcher.cli.running.agent_choice import _correction, _meant

OFFERED = ("writer", "tester", "3")
NAMES = ("tester", "writer", "3", "far-away")


@pytest.mark.parametrize(
    ("answer", "agent"),
    [
        ("1", "writer"),
        ("2", "tester"),
        ("Tester", "tester"),
        ("@writer", "writer"),
        ("far-away", "far-away"),
        ("0", None),
        ("4", None),
        ("-1", None),
        ("²", None),
        ("nobody", None),
    ],
)
def test_a_number_of_the_list_or_any_agents_name_is_an_answer(answer: str, agent: str | None) -> None:
    assert _meant(answer, OFFERED, NAMES) == agent


def test_any_other_answer_is_corrected() -> None:
    assert _correction("writr", OFFERED, NAMES) == "no agent is named 'writr': did you mean writer?"
    assert _correction("9", OFFERED, NAMES) == "no agent is named '9': give a number from 1 to 3, or a name"
