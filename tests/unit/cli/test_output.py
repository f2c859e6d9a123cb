"""Lines and tables, on terminals of every kind."""

import io
import re

import pytest
from rich.cells import cell_len

from ekiden.dispatcher.cli.terminal.output import Output, fitted, speaks_unicode
from ekiden.dispatcher.cli.views.streamed_text import StreamedText
from ekiden.shared.terminal_text import note, one_line


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.seek(0)
        return self.read()


def stream_of(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("encoding", "environ", "expected"),
    [
        ("utf-8", {}, True),
        ("utf-8", {"LANG": "en_US.UTF-8"}, True),
        ("latin-1", {"LANG": "en_US.ISO-8859-1"}, False),
        ("utf-8", {"LANG": "C"}, False),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),  # as Python itself sets it for LANG=C
        ("utf-8", {"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, True),
        ("utf-8", {"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ("utf-8", {"LANG": "C", "PYTHONUTF8": "1"}, True),
    ],
)
def test_knows_where_only_ascii_can_be_shown(encoding: str, environ: dict[str, str], expected: bool) -> None:
    assert speaks_unicode(stream_of(encoding), environ) is expected


def test_a_table_for_programs_has_aligned_columns_and_no_decoration() -> None:
    stream = stream_of("utf-8")
    Output(stream).table(["JOB", "STATUS"], [["a.1", "done"], ["bbbbbb.2", "two\nlines"]])
    stream.seek(0)
    assert stream.read().splitlines() == ["JOB       STATUS", "a.1       done", "bbbbbb.2  two lines"]


def test_wide_names_do_not_push_the_columns_behind_them() -> None:
    stream = stream_of("utf-8")
    Output(stream).table(["AGENT", "AT"], [["代码修复", "now"], ["e\u0301te", "now"], ["plain", "now"]])
    stream.seek(0)
    lines = stream.read().splitlines()
    assert {cell_len(line[: line.index("now")]) for line in lines[1:]} == {cell_len("代码修复  ")}


def test_a_narrow_terminal_wraps_lines_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    out = Output(terminal)
    out.line("word " * 30, "bold")
    out.table(["JOB", "REQUEST"], [["abcdefghijklmnop.1", "the tests of this project fail " * 3]])
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text())
    assert len(text.splitlines()) > 6
    assert max(map(len, text.splitlines())) <= 40
    assert "abcdefghijklmnop.1" in text, "an id in two pieces could not be copied"


def test_one_line_cuts_what_is_too_long() -> None:
    assert one_line("a\n b", 10) == "a b"
    assert one_line("x" * 20, 10) == "xxxxxxx..."


@pytest.mark.parametrize("text", ["short", "a long text of many words", "代码修复代码修复", "two\nlines\x1b[2J", ""])
@pytest.mark.parametrize("width", [5, 8, 40])
def test_a_fitted_text_is_one_line_of_so_many_columns(text: str, width: int) -> None:
    line = fitted(text, width, "…")
    assert cell_len(line) <= width
    assert not set(line) & set("\n\x1b")
    assert width < 40 or line == " ".join(text.replace("\x1b", "\\u001b").split())


def test_symbols_are_those_that_the_stream_can_show_on_a_terminal_and_elsewhere() -> None:
    assert Output(stream_of("utf-8")).symbols == Output(Terminal()).symbols
    assert "".join(Output(stream_of("ascii")).symbols.values()).isascii()


CHINESE = "请帮我修复这个购物车项目里的测试失败问题，TypeError 出现在 cart.total 函数，谢谢你的帮助"


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> tuple[Terminal, Output]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    return terminal, Output(terminal)


def lines_of(terminal: Terminal) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.text()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_an_agent_says_breaks_at_words_however_it_comes(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal, out = on_terminal(monkeypatch, width)
    said = f"The cause is at cart.py:23, which adds up None. {CHINESE} " * 4
    speech = StreamedText(out, "debugger: ")
    for start in range(0, len(said), 7):
        speech.add(said[start : start + 7])
    speech.end(said)
    lines = lines_of(terminal)
    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).replace(" ", "") == f"debugger: {said}".replace(" ", "")
    assert "".join(lines).count("TypeError") == "\n".join(lines).count("TypeError"), "no word is in two pieces"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_every_terminal_whole_and_its_ids_can_be_copied(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal, out = on_terminal(monkeypatch, width)
    columns = ["JOB", "STATUS", "AGENT", "CREATED", "REQUEST"]
    out.table(columns, [["abcdefghijklmnop.1", "failed", "代码修复", "2026-11-29 05:12:47", CHINESE]] * 2)
    lines = lines_of(terminal)
    assert max(map(cell_len, lines)) <= width
    assert "\n".join(lines).count("abcdefghijklmnop.1") == 2
    assert "\n".join(lines).count("2026-11-29 05:12:47") == 2
    assert all("".join(lines).replace(" ", "").count(part) == 2 for part in ("TypeError", "cart.total"))
    assert "…" not in "".join(lines), "nothing is left out"


def test_a_note_on_a_terminal_breaks_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, _ = on_terminal(monkeypatch, 40)
    monkeypatch.setattr("sys.stderr", terminal)
    note(f"ekiden: {CHINESE}")
    assert max(map(cell_len, lines_of(terminal))) <= 40
