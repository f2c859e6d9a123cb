"""What an agent's file alone tells of its work: requests made from it, and its words without their inflections."""

import numpy as np
import pytest

from ekiden.dispatcher.routing.made_requests import made_requests, phrases_of
from ekiden.dispatcher.routing.own_words import OwnWords
from ekiden.dispatcher.routing.prior import mean_of_best
from ekiden.shared.definitions.model import AgentDefinition, Triggers
from ekiden.shared.embedding.stems import stems_of


def agent(name: str, description: str, **fields: object) -> AgentDefinition:
    return AgentDefinition.model_validate({"name": name, "title": name, "description": description, **fields})


@pytest.mark.parametrize(
    ("description", "phrases"),
    [
        ("Sets, shows and cancels alarms.", ["set alarms", "show alarms", "cancel alarms"]),
        ("Carries parcels; fixes what is broken.", ["carry parcels", "fix what is broken"]),
        ("Use this agent when you need to write a changelog", ["write a changelog"]),
        ("Answers questions about invoices", ["invoices"]),
        ("推荐景点，查询门票", ["推荐景点", "查询门票"]),
    ],
)
def test_a_description_gives_what_users_would_ask_for(description: str, phrases: list[str]) -> None:
    assert [phrase for phrase in phrases if phrase not in phrases_of(description)] == []


def test_a_phrase_is_asked_for_in_the_forms_of_its_language() -> None:
    assert made_requests(agent("a", "{braces} stay")) == [
        "{braces} stay",
        "i want to {braces} stay",
        "can you {braces} stay",
    ]
    assert made_requests(agent("a", "查询门票")) == ["查询门票", "我想查询门票", "请帮我查询门票"]


@pytest.mark.parametrize("description", ["", ".", "s", " and ,", "、", "Use this agent when"])
def test_a_description_that_says_little_makes_few_requests_and_no_trouble(description: str) -> None:
    assert len(made_requests(agent("a", description))) <= 6


def test_inflections_and_function_words_make_no_difference() -> None:
    assert stems_of("Please help me with debugging the tests") == stems_of("debugged test")
    assert "测试" in stems_of("修复测试")


def test_words_of_the_title_the_keywords_and_the_instructions_speak_for_an_agent() -> None:
    agents = [
        agent("a", "Does things.", title="Harbour master"),
        agent("b", "Does things.", triggers=Triggers(keywords=("refund",))),
        agent("c", "Does things.", instructions="You count sheep."),
    ]
    words = OwnWords(agents)

    for number, text in enumerate(("who is the harbour master", "refunds please", "count the sheep")):
        assert words.scores(text).argmax() == number, text
    assert not words.scores("zzz the of").any()


def test_nearness_to_a_set_is_that_of_its_best_few() -> None:
    assert mean_of_best(np.array([[1.0, 0.5, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2]])) == pytest.approx([0.5, 0.2])
