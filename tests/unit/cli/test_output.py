"""Lines and tables, on terminals of every kind."""

import io
import re

import pytest
from rich.cells import cell_len

from ekiden.dispatcher.cli.terminal.output import Output, fitted, speaks_unicode
from ekiden.shared.terminal_text import one_line


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


def test_drawings_are_plain_off_a_terminal() -> None:
    assert "".join(Output(stream_of("utf-8")).drawing.values()).isascii()
    assert Output(stream_of("utf-8")).symbols["arrow"] == "→"
