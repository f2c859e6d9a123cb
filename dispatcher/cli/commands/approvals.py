"""``ekiden approvals …``: what waits for people, and their answers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ekiden.dispatcher.cli.connection import connected, tell_if_unserved
from ekiden.dispatcher.cli.given_text import given_text, piped_text
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.running.approval_ids import approval_of
from ekiden.dispatcher.cli.running.questions import reply_to
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.approvals import (
    COLUMNS,
    decided_by,
    question_lines,
    row_of_approval,
    rows_of_approval,
)
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer, ApprovalView, approval_json
from ekiden.shared.errors import ApprovalGone, EkidenError, InvalidRequest, StoreUnavailable
from ekiden.shared.storable import read_json
from ekiden.shared.terminal_text import note, say

__all__ = ["app"]

app = typer.Typer(help="See what waits for people, and answer it.", no_args_is_help=True)

_LOOK_S = 1.0
_MOST_BYTES = 1_000_000
"""Of arguments that are put in the place of a model's."""

Id = Annotated[str, typer.Argument(metavar="ID", help="The approval's id; or its job's, where only one waits.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids; or their jobs', where only one waits in each.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the agent and the audit get it.")]
T = TypeVar("T")


@app.command(name="list")
def list_(
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, until Ctrl-C: each as it comes, and as it ends.")
    ] = False,
    job: Annotated[str | None, typer.Option("--job", metavar="ID", help="Of this job and those below it.")] = None,
    is_all: Annotated[bool, typer.Option("--all", help="With --job: also what was decided.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List what waits for people: what expires first comes first."""
    if is_all and job is None:
        raise InvalidRequest("--all is for one job: give --job ID")
    if is_all and watch:
        raise InvalidRequest("--all and --watch exclude each other: leave one out")

    async def work() -> None:
        async with connected(redis, data_dir) as client:
            job_id = None if job is None else await client.resolve(job)
            if watch:
                await _watch(client, job_id, as_json=as_json)
            _show_list(await client.approvals(job=job_id, waiting=not is_all), as_json=as_json)

    _run(work())


@app.command()
def show(approval: Id, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show all of what is asked, and what became of it."""
    found = _run(_with_client(redis, data_dir, lambda client: approval_of(client, approval)))
    if as_json:
        say(approval_json(found))
        return
    out = Output()
    out.fields(rows_of_approval(found))
    out.line()
    out.line("\n".join(question_lines(found, out.symbols, whole=True)))


@app.command()
def approve(
    approvals: Ids,
    always_for_job: Annotated[
        bool, typer.Option("--always-for-job", help="Ask no more about calls of this tool in the job, of no more risk.")
    ] = False,
    edit: Annotated[
        str | None,
        typer.Option(
            "--edit", metavar="JSON|@FILE", help="Other arguments for the call, an object; @- is standard input."
        ),
    ] = None,
    reason: Reason = "",
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Let calls be executed."""
    if edit is not None and len(approvals) != 1:
        raise InvalidRequest("--edit is for one approval: give one ID")
    edited = None if edit is None else _arguments(edit)

    def answer(asked: ApprovalView) -> Answer:
        if asked.kind == "question":
            raise InvalidRequest(f"{asked.id!r} is a question: `ekiden approvals answer {asked.id} TEXT`")
        return Answer("approved", asked.digest, why=reason, edited=edited, always_for_job=always_for_job)

    _answer_all(approvals, answer, redis, data_dir, as_json=as_json)


@app.command()
def deny(
    approvals: Ids, reason: Reason = "", as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None
) -> None:
    """Let calls not be executed, or leave questions without an answer: the agents are told."""
    _answer_all(approvals, lambda asked: Answer("denied", asked.digest, why=reason), redis, data_dir, as_json=as_json)


@app.command()
def answer(
    approval: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads standard input.")],
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Answer the question of an agent: with one of its choices, where it gives some, or their number."""
    said = piped_text(_MOST_BYTES).strip() if text == "-" else text

    def answered(asked: ApprovalView) -> Answer:
        if asked.kind != "question":
            raise InvalidRequest(f"{asked.id!r} is no question: `ekiden approvals approve {asked.id}`, or `deny`")
        if (reply := reply_to(asked, said)) is None:
            choices = f": {', '.join(asked.choices)}" if asked.choices else ""
            raise InvalidRequest(f"{asked.id!r} has no such answer{choices}")
        return Answer("answered", asked.digest, answer=reply.text)

    _answer_all([approval], answered, redis, data_dir, as_json=as_json)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def _with_client(redis: str | None, data_dir: Path | None, ask: Callable[[Client], Awaitable[T]]) -> T:
    async with connected(redis, data_dir) as client:
        return await ask(client)


def _show_list(found: Sequence[ApprovalView], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            say(approval_json(one))
    elif found:
        Output().table(COLUMNS, [row_of_approval(one) for one in found])
    else:
        Output().line("Nothing waits for people")


async def _watch(client: Client, job: str | None, *, as_json: bool) -> None:
    """Show what waits as it comes, and what becomes of it; never returns. A server that is away is waited for."""
    seen: dict[str, ApprovalView] = {}
    while True:
        with contextlib.suppress(StoreUnavailable):
            waiting = {one.id: one for one in await client.approvals(job=job)}
            for one in [*waiting.values()]:
                if one.id not in seen:
                    _tell(one, "  ".join(row_of_approval(one)), as_json=as_json)
            for gone in seen.keys() - waiting.keys():
                await _tell_end(client, seen[gone], as_json=as_json)
            seen = waiting
        await asyncio.sleep(_LOOK_S)


async def _tell_end(client: Client, asked: ApprovalView, *, as_json: bool) -> None:
    with contextlib.suppress(ApprovalGone):  # its job is forgotten
        found = await client.approval(asked.id)
        _tell(found, f"{found.id}  {found.tool}  {decided_by(found)}", as_json=as_json)


def _tell(approval: ApprovalView, text: str, *, as_json: bool) -> None:
    if as_json:
        say(approval_json(approval))
    else:
        Output().line(text)


def _answer_all(
    ids: Sequence[str],
    answer: Callable[[ApprovalView], Answer],
    redis: str | None,
    data_dir: Path | None,
    *,
    as_json: bool,
) -> None:
    """Give each its answer, whatever becomes of the others; end with the first error's exit code."""

    async def work() -> int:
        async with connected(redis, data_dir) as client:
            codes = [await _answer_one(client, one, answer, as_json=as_json) for one in dict.fromkeys(ids)]
            if 0 in codes:
                await tell_if_unserved(client, redis, data_dir)
        return next(filter(None, codes), 0)

    raise typer.Exit(_run(work()))


async def _answer_one(client: Client, prefix: str, answer: Callable[[ApprovalView], Answer], *, as_json: bool) -> int:
    """Answer one approval; return the exit code."""
    try:
        asked = await approval_of(client, prefix)
        decided = await client.answer(asked.id, answer(asked))
    except StoreUnavailable:
        raise
    except EkidenError as error:
        note(f"ekiden: {error}")
        return error.exit_code
    out = Output()
    _tell(decided, f"{out.symbols['ok']} {decided.id} {decided.tool}: {decided_by(decided)}", as_json=as_json)
    return 0


def _arguments(text: str) -> dict[str, Any]:
    """Read the arguments that replace a model's. Raises ``InvalidRequest``; the size is bounded."""
    source = _file_text(text[1:]) if text.startswith("@") else text
    if len(source.encode(errors="replace")) > _MOST_BYTES:
        raise InvalidRequest(f"--edit is larger than {_MOST_BYTES} bytes")
    try:
        found = read_json(source)
    except ValueError as error:
        raise InvalidRequest(f"--edit is no JSON ({error}): give an object of arguments, or @FILE") from None
    if not isinstance(found, dict):
        raise InvalidRequest('--edit is no JSON object: give one such as {"command": "ls"}')
    return found


def _file_text(name: str) -> str:
    return given_text(name, _MOST_BYTES, f"--edit {'@' + name!r}")
