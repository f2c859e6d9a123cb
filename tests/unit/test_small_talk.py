"""What is said in a chat to what is nobody's work."""

import pytest

from ekiden.dispatcher.small_talk import answer_to

AGENTS = ("debugger", "reviewer")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "Hello! Say what is to be done, in your own words. Here are debugger, reviewer (@NAME"),
        ("Hi there!", "Hello!"),
        ("thanks a lot :)", "You are welcome."),
        ("bye", "ends the chat"),
        ("What can you do?", "This is Ekiden"),
        ("你好！", "你好！请直接说要做什么。这里有：debugger, reviewer"),
        ("谢谢", "不客气。"),
    ],
)
def test_small_talk_gets_a_friendly_line_in_its_language(text: str, says: str) -> None:
    assert says in answer_to(text, AGENTS)


@pytest.mark.parametrize(
    "text",
    ["hello world does not compile", "help me fix the tests", "thanks, now review it", "", "你好 修复测试", "hi" * 99],
)
def test_whatever_else_is_a_request(text: str) -> None:
    assert answer_to(text, AGENTS) == ""


def test_many_agents_are_not_all_named() -> None:
    assert "a7, … (@NAME" in answer_to("hello", [f"a{number}" for number in range(20)])
    assert answer_to("hello", ()) == "Hello! Say what is to be done, in your own words."
