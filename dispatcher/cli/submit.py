"""``ekiden submit``: hand a request to pools that run elsewhere."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.options import AsJson, DataDir, Redis
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.client import Client
    from shared.records import Ended

__all__ = ["submit", "submit_and_follow"]


def submit(
    prompt: Annotated[str, typer.Argument(help="What is to be done; - reads standard input.")],
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who takes it, instead of the router.")] = None,
    cwd: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where file tools start. [the worker's workspace root]")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="The session to continue.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show the job as it goes on, until it ends.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the answer.")] = False,
    request_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The same id again is the same job: to repeat a lost submit.")
    ] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Submit a request and print its job's id."""
    import asyncio

    from dispatcher.cli.request import prompt_of

    if follow and wait:
        raise InvalidRequest("--follow and --wait exclude each other: leave one out")
    request = {
        "prompt": prompt_of(prompt),
        "agent": agent,
        "cwd": None if cwd is None else os.path.realpath(cwd),
        "session": session,
        "request_id": request_id,
    }
    raise typer.Exit(asyncio.run(_submit(request, redis, data_dir, follow=follow, wait=wait, as_json=as_json)))


async def submit_and_follow(client: "Client", request: dict[str, str | None], *, as_json: bool) -> int:
    """Submit, show the job until it ends, and return the exit code. Ctrl-C leaves the job running."""
    from dispatcher.cli.follow import Interrupted, follow, interruptible, leave_running
    from dispatcher.cli.show import exit_code_of, view_for

    job = await _submitted(client, request)
    view = view_for(job, as_json=as_json)
    try:
        async with interruptible():
            end = await follow(client, job, view)
    except Interrupted:
        leave_running(job, view)
        return 130
    return exit_code_of(end.status, end.reason)


async def _submit(
    request: dict[str, str | None], redis: str | None, data_dir: Path | None, *, follow: bool, wait: bool, as_json: bool
) -> int:
    from dispatcher.cli.connection import connected

    async with connected(redis, data_dir, may_start=False) as client:
        if follow:
            return await submit_and_follow(client, request, as_json=as_json)
        job = await _submitted(client, request)
        if wait:
            return await _wait(client, job, as_json=as_json)
    _print({"job": job} if as_json else job)
    return 0


async def _submitted(client: "Client", request: dict[str, str | None]) -> str:
    from dispatcher.cli.request import require_reachable

    if request["cwd"] is not None:
        await require_reachable(client, Path(request["cwd"]))
    return await client.submit(**request)  # type: ignore[arg-type]  # the prompt is never None


async def _wait(client: "Client", job: str, *, as_json: bool) -> int:
    """Print the answer once there is one; warnings and failures go to standard error."""
    from dispatcher.cli.follow import Interrupted, follow, interruptible, leave_running
    from dispatcher.cli.show import exit_code_of

    view = _Quiet()
    try:
        async with interruptible():
            end = await follow(client, job, view)
    except Interrupted:
        leave_running(job, view)
        return 130
    _print_end(job, end, as_json=as_json)
    return exit_code_of(end.status, end.reason)


def _print_end(job: str, end: "Ended", *, as_json: bool) -> None:
    if as_json:
        _print({"job": job, **end.model_dump(mode="json", exclude_none=True, include=_END_FIELDS)})
    elif end.answer is not None:
        _print(end.answer)
    else:
        typer.echo(f"ekiden: job {job} {end.status} ({end.reason}): {end.error or ''}", err=True)


_END_FIELDS = {"status", "reason", "answer", "error"}


class _Quiet:
    """A view that shows notes only, on standard error."""

    def show(self, entry: object) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Say something that is not in the journal."""
        typer.echo(text, err=True)


def _print(value: object) -> None:
    import json

    from dispatcher.cli.output import printable

    typer.echo(printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
