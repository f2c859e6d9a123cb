from ekiden.shared.llm.context_windows import tokens_in, tokens_of
from ekiden.shared.messages import Message, TextPart, ToolCall, user_message


def test_a_token_is_four_latin_letters_and_less_than_two_chinese_characters() -> None:
    assert tokens_of("x" * 4_000) == 1_000
    assert 1.0 <= 4_000 / tokens_of("修" * 4_000) <= 1.5
    assert (tokens_of(""), tokens_of("x")) == (0, 1)


def test_text_that_utf_8_cannot_hold_is_estimated_all_the_same() -> None:
    assert tokens_of("\ud800" * 8) == 2


def test_a_message_is_as_much_as_all_its_parts() -> None:
    call = ToolCall(id="c1", name="look", args={"what": "x" * 4_000}, signature="s" * 4_000)
    message = Message(role="model", parts=(TextPart(text="y" * 4_000, thought=True), call))
    assert 3_000 < tokens_in(message) < 3_100
    assert tokens_in(user_message("x" * 400)) < 130
