"""A job's chain as a picture for web pages: SVG, in which no name and no text means anything but itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import east_asian_width

from ekiden.shared.terminal_text import one_line, visible

__all__ = ["Box", "chain_picture"]

_CELL, _PAD, _HEIGHT, _GAP = 8, 12, 40, 44
"""Pixels: of a narrow letter, round a name, of a box with its figures, between two boxes."""
_LONGEST_NAME, _LONGEST_WHY = 40, 300
_COLOURS = {"": "#8884", "done": "#2a92", "failed": "#c332"}


@dataclass(frozen=True)
class Box:
    """Somebody who had the job.

    Attributes:
        name: Who.
        why: How control came there; shown where a mouse points.
        figures: What it took, below the name.
        status: How the job ended with it, ``done`` or ``failed``; empty for all others.
    """

    name: str
    why: str = ""
    figures: str = ""
    status: str = ""


def chain_picture(boxes: Sequence[Box]) -> str:
    """Return the boxes from left to right, with an arrow between two."""
    parts, x = [], 1
    for number, box in enumerate(boxes):
        if number:
            parts.append(_arrow(x))
            x += _GAP
        width = _width_of(box)
        parts.append(_drawn(box, x, width))
        x += width
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x + 1}" height="{_HEIGHT + 2}" font-family="sans-serif" '
        f'fill="currentColor" role="img">{"".join(parts)}</svg>'
    )


def _drawn(box: Box, x: int, width: int) -> str:
    fill = _COLOURS.get(box.status, _COLOURS[""])
    texts = _text(box.name, x + width // 2, 17 if box.figures else 25, 14)
    if box.figures:
        texts += _text(box.figures, x + width // 2, 33, 11)
    frame = f'<rect x="{x}" y="1" width="{width}" height="{_HEIGHT}" rx="6" fill="{fill}" stroke="currentColor"/>'
    return f"<g><title>{_safe(box.why, _LONGEST_WHY)}</title>{frame}{texts}</g>"


def _text(text: str, middle: int, y: int, size: int) -> str:
    return f'<text x="{middle}" y="{y}" font-size="{size}" text-anchor="middle">{_safe(text)}</text>'


def _arrow(x: int) -> str:
    y, end = 1 + _HEIGHT // 2, x + _GAP - 6
    return f'<path d="M{x + 6} {y}H{end}" stroke="currentColor"/><path d="M{end} {y}l-7 -4v8z" stroke="none"/>'


def _width_of(box: Box) -> int:
    return _CELL * max(_cells(_cut(box.name)), _cells(_cut(box.figures)) * 3 // 4) + 2 * _PAD


def _cells(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, longest: int = _LONGEST_NAME) -> str:
    return one_line(visible(text), longest, "…")


def _safe(text: str, longest: int = _LONGEST_NAME) -> str:
    return escape(_cut(text, longest))
