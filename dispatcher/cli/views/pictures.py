"""In which forms pictures are shown."""

from typing import Annotated

import typer

from ekiden.dispatcher.cli.views.graph_picture import Picture
from ekiden.dispatcher.cli.views.mermaid import drawn
from ekiden.dispatcher.cli.views.svg import svg
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import say

__all__ = ["AsMermaid", "AsSvg", "only_one", "say_picture"]

AsMermaid = Annotated[bool, typer.Option("--mermaid", help="A flowchart in Mermaid's language.")]
AsSvg = Annotated[bool, typer.Option("--svg", help="A picture for web pages and documents.")]


def only_one(**forms: bool) -> None:
    """Refuse two forms at once."""
    given = [f"--{name}" for name, is_given in forms.items() if is_given]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)} are two forms: give one")


def say_picture(picture: Picture, *, as_svg: bool) -> None:
    """Print the picture as SVG, or in Mermaid's language."""
    say(svg(picture) if as_svg else drawn(picture))
