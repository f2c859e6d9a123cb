"""``ekiden run``: the whole relay for one request."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.options import Abandoned, AsJson, DataDir, Redis
from shared.errors import InvalidRequest

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
    data_dir: DataDir = None,
) -> None:
    """Route a request, hand it from agent to agent, and print the answer.

    Starts all it needs and stops it again. With a Redis address, it uses the pools that serve that server.
    """
    from dispatcher.cli.connection import configured
    from dispatcher.cli.here import Order, run_here
    from dispatcher.cli.request import DEMO_PROMPT, Workplace, demo_project, prompt_of

    if demo and (cwd or workspace_root):
        raise InvalidRequest("--demo makes a folder of its own: leave out --cwd and --workspace-root")
    if prompt is None and not demo and abandoned is None:
        raise InvalidRequest('nothing to do: say what, as in `ekiden run "the tests fail"`, or try `ekiden run --demo`')
    if prompt is None and demo:
        prompt = DEMO_PROMPT
    text = None if prompt is None else prompt_of(prompt)
    url, data = configured(redis, data_dir)
    if demo:
        cwd = demo_project()
        typer.echo(f"The demo project is in {cwd}", err=as_json)
    if url:
        raise typer.Exit(_run_elsewhere(text, agent, cwd, url, as_json=as_json))
    order = Order(text, agent, Workplace.of(cwd, workspace_root), as_json)
    raise typer.Exit(run_here(order, data, abandoned))


def _run_elsewhere(prompt: str | None, agent: str | None, cwd: Path | None, redis: str, *, as_json: bool) -> int:
    """Use the pools that serve a configured server."""
    if prompt is None:
        raise InvalidRequest("--abandoned is for the embedded server: the pools of a Redis server go on by themselves")
    import asyncio

    folder = None if cwd is None else os.path.realpath(cwd)
    return asyncio.run(_submit_there({"prompt": prompt, "agent": agent, "cwd": folder}, redis, as_json=as_json))


async def _submit_there(request: dict[str, str | None], redis: str, *, as_json: bool) -> int:
    from dispatcher.cli.submit import submit_and_follow
    from dispatcher.client import Client

    async with Client(redis) as client:
        return await submit_and_follow(client, request, as_json=as_json)
