"""Tables for every width: side by side, the longest column below its row, or a line a cell."""

from collections.abc import Sequence
from itertools import zip_longest

from ekiden.shared.cells import padded, width_of, wrapped

__all__ = ["laid_out"]

_LEAST = 16
"""Cells that a column of texts needs to be read beside the others."""
_BELOW = 4
"""Blanks before a text below its row."""

_Rows = Sequence[Sequence[str]]


def laid_out(columns: Sequence[str], rows: _Rows, width: int) -> tuple[list[str], list[str]]:
    """Return the lines of the head and those of the rows, whose cells are of one line each.

    Only the widest column is broken into lines, at its words, so that ids can be copied. Where it would have too little
    room beside the others, it goes below its row if it is the last one; else each cell has a line of its own, and there
    is no head. ``width`` 0: a row is one line, as long as it is.
    """
    widths = [max(map(width_of, column)) for column in zip(columns, *rows, strict=True)]
    widest = max(range(len(widths)), key=widths.__getitem__)
    others = sum(widths) - widths[widest] + 2 * (len(widths) - 1)
    if width and others + widths[widest] > width:
        if others + _LEAST > width:
            is_last = widest == len(widths) - 1 and others - 2 <= width
            return _text_below(columns, rows, widths[:-1], width) if is_last else ([], _records(columns, rows, width))
        widths[widest] = width - others
    return _row(columns, widths), [line for row in rows for line in _row(row, widths)]


def _row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [
        wrapped(cell, width, splits=True).split("\n") if width_of(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    return ["  ".join(map(padded, line, widths)).rstrip() for line in zip_longest(*cells, fillvalue="")]


def _text_below(columns: Sequence[str], rows: _Rows, widths: Sequence[int], width: int) -> tuple[list[str], list[str]]:
    head, *below = ([*_row(row[:-1], widths), *_below(row[-1], width)] for row in (columns, *rows))
    return head, [line for lines in below for line in lines]


def _below(text: str, width: int) -> list[str]:
    return [wrapped(" " * _BELOW + text, width, hang=_BELOW)] if text else []


def _records(columns: Sequence[str], rows: _Rows, width: int) -> list[str]:
    lines: list[str] = []
    for row in rows:
        named = (f"{name.lower()}: {cell}" if name else cell for name, cell in zip(columns, row, strict=True) if cell)
        lines += [*([""] if lines else []), *(wrapped(line, width, hang=2) for line in named)]
    return lines
