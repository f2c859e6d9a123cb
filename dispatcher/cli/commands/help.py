"""``ekiden help``: what ``--help`` says, for those who ask in a word."""

from typing import Annotated

import typer

__all__ = ["help_"]


def help_(
    ctx: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]…", help="Such as job show.")] = None,
) -> None:
    """Explain a command, as its --help does."""
    root = ctx.find_root()
    raise typer.Exit(root.command.main([*(command or ()), "--help"], prog_name=root.info_name, standalone_mode=False))
