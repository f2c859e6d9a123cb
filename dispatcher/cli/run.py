"""``ekiden run``: the whole relay for one request."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.abandoned import Abandoned
from dispatcher.cli.options import AsJson, DataDir, Redis
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.cli.here import Order

__all__ = ["run"]


def run(
    prompt: Annotated[str | None, typer.Argument(help="What is to be done; - reads standard input.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Work on a copy of a small broken project.")] = False,
    cwd: Annotated[Path | None, typer.Option(metavar="DIR", help="The project. [the current folder]")] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who takes it, instead of the router.")] = None,
    workspace_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Tools never leave this folder. [--cwd]")
    ] = None,
    abandoned: Annotated[
        Abandoned | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = Path(".ekiden"),
) -> None:
    """Route a request, hand it from agent to agent, and print the answer.

    Starts all it needs and stops it again. With a Redis address, it uses the pools that serve that server.
    """
    from dispatcher.cli.request import DEMO_PROMPT, Workplace, demo_project, prompt_of
"""E"""
