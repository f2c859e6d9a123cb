"""What a chat reads."""

import io

import pytest

from ekiden.dispatcher.cli.terminal.line_input import PipedLines, TypedLines, lines_here


def read_all(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    lines = lines_here(None)
    assert isinstance(lines, PipedLines)
    found = []
    while (line := lines.read()) is not None:
        found.append(line)
    return [*found, None]


def test_a_pipe_gives_a_text_per_line_and_a_backslash_joins_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_all("one\ntwo \\\nthree\n\nlast", monkeypatch) == ["one", "two \nthree", "", "last", None]
    assert read_all("open \\\n", monkeypatch) == ["open ", None]


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("hello\r", "hello"),
        ("one\\\rtwo\r", "one\ntwo"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("\x04", None),
        ("dropped\x03", ""),
    ],
    ids=["enter", "backslash", "alt-enter", "ctrl-d", "ctrl-c"],
)
def test_a_terminal_gives_what_was_typed(typed: str, text: str | None) -> None:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
        keyboard.send_text(typed)
        assert TypedLines().read() == text
