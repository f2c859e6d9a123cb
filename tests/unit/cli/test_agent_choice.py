"""What the answer to "who takes it?" may be."""

import pytest

from ekiden.dispatcher.cli.running.agent_choice import Offer

OFFER = Offer(("writer", "tester", "3"), ("tester", "writer", "3", "far-away"))


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
    assert OFFER.meant(answer) == agent


def test_any_other_answer_is_corrected() -> None:
    assert OFFER.correction("writr") == "no agent is named 'writr': did you mean writer?"
    assert OFFER.correction("9") == "no agent is named '9': give a number from 1 to 3, or a name"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2", True),
        ("99", True),
        ("writr", True),
        (" @Writer ", True),
        ("why does it fail", False),
        ("2 tests fail", False),
        ("weather", False),
    ],
)
def test_in_a_chat_a_line_that_is_no_number_and_nearly_no_name_is_a_new_request(text: str, is_one: bool) -> None:
    assert OFFER.is_answer(text) == is_one
