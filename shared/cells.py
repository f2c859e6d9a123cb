"""Text in the cells of a terminal: a Chinese character takes two; lines break at blanks and between wide characters."""

import re
from collections.abc import Iterator

__all__ = ["LineBreaker", "cut", "padded", "width_of", "wrapped"]

_OPENING = "（［｛「『【〖《〈〔“‘"
_CLOSING = "、。，．：；？！）］｝」』】〗》〉〕”’…々ー・～"
_WIDE = (
    "\u2e80-\u303e\u3041-\u9fff\ua000-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
)
_UNIT = re.compile(
    "\n|[^\\S\n\xa0\u202f]+"
    f"|[{_OPENING}]*(?:(?![{_OPENING}{_CLOSING}])[{_WIDE}][{_CLOSING}.,;:!?)\\]}}]*"
    f"|(?:[\xa0\u202f]|[^\\s{_OPENING}{_CLOSING}{_WIDE}])+[{_CLOSING}]*"
    f"|[{_CLOSING}]*)"
)
"""What stays on one line: an end of line, blanks, a wide character or a word, each with the marks that belong to it.

That is as much of Unicode's line breaking (UAX 14) as Chinese, Japanese and the languages with blanks need.
"""


def width_of(text: str) -> int:
    """Return how many cells ``text`` takes."""
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int) -> str:
    """Return ``text`` with blanks behind it up to ``width`` cells; a longer one as it is."""
    return text + " " * (width - width_of(text))


def cut(text: str, width: int, dots: str = "...") -> str:
    """Return ``text`` on one line of at most ``width`` cells, cut where it is too long."""
    from rich.cells import set_cell_size

    line = " ".join(text[: 10 * width].split())  # more is never seen; nothing of it is measured
    if width_of(line) <= width and len(text) <= 10 * width:
        return line
    return set_cell_size(line, max(min(width_of(line), width - len(dots)), 0)).rstrip() + dots


def wrapped(text: str, width: int, *, hang: int = 0, splits: bool = False) -> str:
    """Return ``text`` in lines of ``width`` cells; see ``LineBreaker``."""
    breaker = LineBreaker(width, hang=hang, splits=splits)
    return breaker.add(text) + breaker.end()


class LineBreaker:
    """Breaks a text that comes in pieces. All but its last word is returned at once, for that may go on.

    A word that is wider than the lines begins one, and stays whole: a terminal breaks it by itself, and lets it be
    copied in one piece.
    """

    def __init__(self, width: int, *, hang: int = 0, splits: bool = False) -> None:
        """Break at ``width`` cells.

        Args:
            width: Cells of a line.
            hang: Blanks before what goes on below the text's first line.
            splits: Words that are wider than the lines are broken, too, as in a table.
        """
        self._width = max(width, 2)
        self._hang = hang if hang <= width // 2 else 0
        self._splits = splits
        self._column = 0
        self._has_words = False
        """Whether the line has any, so that another one may go to the next line."""
        self._blanks = ""
        self._word = ""

    def add(self, text: str) -> str:
        """Return what can be shown now."""
        units = _UNIT.findall(self._word + text)
        if units and not units[-1]:
            units.pop()  # the end of the text
        self._word = units.pop() if units and not units[-1].isspace() else ""
        return "".join(map(self._placed, units))

    def end(self) -> str:
        """Return what was kept; blanks at the end are left out."""
        word, self._word = self._word, ""
        return self._placed(word) if word else ""

    def _placed(self, unit: str) -> str:
        if unit == "\n":
            self._blanks, self._column, self._has_words, self._hang = "", 0, False, 0
            return unit
        if unit.isspace():
            self._blanks += unit
            return ""
        return "".join(map(self._word_placed, self._parts(unit)))

    def _parts(self, word: str) -> Iterator[str]:
        if not self._splits or width_of(word) <= self._width - self._hang:
            yield word
            return
        from rich.cells import chop_cells

        yield from chop_cells(word, self._width - self._hang)

    def _word_placed(self, word: str) -> str:
        blanks = (" " * self._column + self._blanks).expandtabs()[self._column :]
        size, self._blanks = width_of(word), ""
        if self._has_words and self._column + len(blanks) + size > self._width:
            self._column = 0
            return "\n" + self._written(" " * self._hang, word, size)
        return self._written(blanks, word, size)

    def _written(self, blanks: str, word: str, size: int) -> str:
        if not self._column:
            blanks = blanks[: max(self._width - size, 0)]
        self._has_words = True
        self._column = (self._column + len(blanks) + size - 1) % self._width + 1
        return blanks + word
