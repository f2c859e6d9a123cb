"""Pictures as SVG. The layout and the drawing are graphlay's, of the extra ``svg``; it is imported when it is used."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ekiden.dispatcher.cli.views.graph_picture import COLOURS, Arrow, Picture, Shape
from ekiden.shared.cells import cut, width_of
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line, visible

__all__ = ["svg"]

_LONGEST = 48
"""Cells of a text."""
_CELL = 7.5
"""Pixels of a cell."""
_LARGE, _SMALL, _LINE, _PAD = 13, 11, 17, 14
_NEAR = 120
"""Pixels from a line within which its label may stand beside it."""
_INK, _PAPER, _FAINT = "#1d2533", "#ffffff", "#5b6577"
_DASHES = {"dotted": "5 4"}
_WIDTHS = {"thick": 3.5}


def svg(picture: Picture) -> str:
    """Return the picture as a document. Whatever its texts are, they are shown and mean nothing else.

    Raises:
        ConfigurationError: the extra is not installed.
    """
    try:
        import graphlay
    except ImportError as error:
        raise ConfigurationError(
            "pictures as SVG need the extra 'svg': pip install 'ekiden[svg]'. --mermaid needs nothing"
        ) from error

    graph = graphlay.Graph()
    for number, shape in enumerate(picture.shapes):
        graph.node(number, width=_width(shape), height=_height(shape), shape="ellipse" if shape.is_end else "box")
    for arrow in picture.arrows:
        graph.edge(arrow.source, arrow.target, **_room(arrow))
    layout = graphlay.layout(graph, preset="process_map")
    scene = layout.sketch_scene(background=_PAPER)
    for node, shape in zip(scene["nodes"], picture.shapes, strict=True):
        node["content"] = _texts(shape)
        if shape.state is not None:
            node["fill"] = COLOURS[shape.state]
    for drawn, arrow, edge in zip(scene["edges"], picture.arrows, layout.edges, strict=True):
        drawn["stroke"] |= {"dash": _DASHES.get(arrow.style), "width": _WIDTHS.get(arrow.style, 1.6)}
        scene["nodes"] += [_label(arrow, *_place_on(edge))] if arrow.label else []
    return str(graphlay.render_scene(scene))


def _width(shape: Shape) -> float:
    return _CELL * max(width_of(_shown(shape.name)), width_of(_shown(shape.below))) + 2 * _PAD


def _height(shape: Shape) -> float:
    return _LINE * (2 if shape.below else 1) + _PAD


def _room(arrow: Arrow) -> dict[str, Any]:
    if not arrow.label:
        return {}
    return {"label_size": {"width": _CELL * width_of(_shown(arrow.label)) + 8, "height": float(_LINE)}}


def _texts(shape: Shape) -> list[dict[str, Any]]:
    half = _LINE / 2 if shape.below else 0
    name = _text(_shown(shape.name), -half, _LARGE, _INK)
    return [name, _text(_shown(shape.below), half, _SMALL, _FAINT)] if shape.below else [name]


def _place_on(edge: Mapping[str, Any]) -> tuple[float, float]:
    """Return where the label of an edge goes: as laid out, if that is on the line; of one that leads up it is not.

    There it is the middle of the longest level stretch, which lies between two rows of shapes.
    """
    points = [(point["x"], point["y"]) for point in edge["points"]]
    stretches = list(pairwise(points))
    if (anchor := edge.get("label_anchor")) is not None:
        x, y = anchor["x"], anchor["y"]
        if any(
            min(a, c) - _NEAR <= x <= max(a, c) + _NEAR and min(b, d) <= y <= max(b, d) for (a, b), (c, d) in stretches
        ):
            return x, y
    (a, b), (c, d) = max(stretches, key=lambda ends: (ends[0][1] == ends[1][1], math.dist(*ends)))
    return (a + c) / 2, (b + d) / 2


def _label(arrow: Arrow, x: float, y: float) -> dict[str, Any]:
    """Return the label as a shape of its own, on paper, so that no arrow goes through it."""
    text = _shown(arrow.label)
    width = _CELL * width_of(text) + 8
    return {
        "rect": {"x": x - width / 2, "y": y - _LINE / 2, "w": width, "h": float(_LINE)},
        "shape": {"kind": "rect", "corner_radius": 3.0},
        "fill": _PAPER,
        "stroke": {"paint": "none", "width": 0.0},
        "content": [_text(text, 0, _SMALL, _FAINT)],
    }


def _text(text: str, dy: float, size: int, colour: str) -> dict[str, Any]:
    run = {"text": text, "dx": 0.0, "dy": dy, "size": float(size), "color": colour}
    return {"kind": "text", **run, "anchor": "middle", "baseline": "central"}


def _shown(text: str) -> str:
    return cut(one_line(visible(redact(text)), 4 * _LONGEST), _LONGEST, "…")
