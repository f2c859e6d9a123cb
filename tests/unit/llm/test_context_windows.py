import pytest

from ekiden.shared.llm.context_windows import DEFAULT_WINDOW, tokens_in, tokens_of, window_of
from ekiden.shared.messages import Message, TextPart, ToolCall, user_message


@pytest.mark.parametrize(
    ("name", "window"),
    [("gemini-2.5-flash", 1_048_576), ("gemini-9-ultra", 1_048_576), ("llama3", DEFAULT_WINDOW), ("", DEFAULT_WINDOW)],
)
def test_a_models_name_tells_its_window(name: str, window: int) -> None:
    assert window_of(name) == window


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
