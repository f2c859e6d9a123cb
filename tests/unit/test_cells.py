"""Lines break at blanks and between wide characters, at every width and however the text is cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ekiden.shared.cells import LineBreaker, cut, padded, wrapped

CHINESE = "请帮我修复这个购物车项目里的测试失败问题，TypeError 出现在 cart.total 函数（第二行），谢谢你的帮助。"


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_english_breaks_at_blanks_and_chinese_between_characters(width: int) -> None:
    lines = wrapped(f"The test fails: {CHINESE}", width).split("\n")
    assert max(map(cell_len, lines)) <= width
    assert all(cell_len(line) > width - 12 for line in lines[:-1]), "a line is filled as far as the next word allows"
    assert "TypeError" in "|".join(lines), "a word stays whole"
    assert not any(line.startswith(("，", "）", "。")) or line.endswith("（") for line in lines)
    assert "".join(lines).replace(" ", "") == f"The test fails: {CHINESE}".replace(" ", "")


def test_a_word_wider_than_the_line_stays_whole_and_in_a_table_does_not() -> None:
    assert wrapped("see /a/long/path/of/it now", 10) == "see\n/a/long/path/of/it\nnow"
    assert wrapped("see /a/long/path/of/it now", 10, splits=True) == "see\n/a/long/pa\nth/of/it\nnow"


def test_lines_that_go_on_hang_and_lines_of_the_text_keep_their_indent() -> None:
    assert wrapped("name: one two three", 12, hang=6) == "name: one\n      two\n      three"
    assert wrapped("if a:\n    return b or c", 14) == "if a:\n    return b\nor c"
    assert wrapped("a\tb", 20) == "a       b"


@given(st.text("ab 代码，。（\t\n-.", max_size=60), st.integers(2, 20), st.data())
def test_pieces_break_as_the_whole_does(text: str, width: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    breaker = LineBreaker(width, splits=True)
    ends = zip([0, *cuts], [*cuts, len(text)], strict=True)
    pieces = "".join(breaker.add(text[start:end]) for start, end in ends) + breaker.end()
    assert pieces == wrapped(text, width, splits=True)
    assert all(cell_len(line) <= width for line in pieces.split("\n"))


@pytest.mark.parametrize(
    "text", ["short", "a long text of many words", "代码修复代码修复", "two\nlines", "", "x" * 900]
)
@pytest.mark.parametrize("width", [5, 8, 40])
def test_a_cut_text_is_one_line_of_so_many_cells(text: str, width: int) -> None:
    line = cut(text, width, "…")
    assert cell_len(line) <= width
    assert "\n" not in line
    assert len(text) > 40 or width < 40 or line == " ".join(text.split())


def test_padding_counts_cells() -> None:
    assert padded("代码", 6) == "代码  "
    assert padded("代码", 3) == "代码"
