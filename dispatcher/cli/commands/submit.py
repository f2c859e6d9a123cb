"""``ekiden submit``: hand a request to pools that run elsewhere."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import configured, connected
from ekiden.dispatcher.cli.options import (
    Approve,
    AsJson,
    Continue,
    DataDir,
    Deadline,
    NonInteractive,
    OnBusy,
    Outage,
    Redis,
    Session,
    SessionPolicy,
    State,
    Strategy,
    Thoughts,
    Trust,
    User,
    Verbose,
)
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.remote import submit_and_follow
from ekiden.dispatcher.cli.running.request import deadline_of, folder_there, prompt_of, user_name
from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.dispatcher.cli.running.variables import variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import Follower, waits_behind
from ekiden.shared.errors import InvalidRequest, NotConfirmed
from ekiden.shared.records import Ended, Entry
from ekiden.shared.stores.views import LivePiece
from ekiden.shared.terminal_text import note, say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["submit"]


def submit(
    prompt: Annotated[str, typer.Argument(help="What is to be done; - reads standard input.")],
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who takes it, instead of the router.")] = None,
    strategy: Strategy = None,
    cwd: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where file tools start. [the worker's workspace root]")
    ] = None,
    session: Session = None,
    is_continued: Continue = False,
    session_policy: SessionPolicy = None,
    user: User = None,
    state: State = None,
    on_busy: OnBusy = "queue",
    deadline: Deadline = None,
    approve: Approve = None,
    non_interactive: NonInteractive = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show the job as it goes on, until it ends.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the answer.")] = False,
    request_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The same id again is the same job: to repeat a lost submit.")
    ] = None,
    thoughts: Thoughts = False,
    verbose: Verbose = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    trust: Trust = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Submit a request and print its job's id."""
    if follow and wait:
        raise InvalidRequest("--follow and --wait exclude each other: leave one out")
    preapproval = Preapproval.of(approve, non_interactive)
    settle_trust(trust)
    asked = CliRequest(
        prompt_of(prompt),
        SessionChoice(user_name(user), session, is_continued, session_policy),
        agent,
        folder_there(cwd),
        on_busy,
        deadline_of(deadline),
        request_id,
        state=variables_of(state),
        preapproval=preapproval,
    ).overridden(strategy)
    display = DisplayOptions(
        as_json,
        thoughts,
        outage_s=timeout,
        verbose=verbose,
        asks_people=non_interactive is None,
        leaves=True,
        is_local=configured(redis, data_dir)[0] is None,
    )
    raise typer.Exit(asyncio.run(_submit(asked, display, redis, data_dir, follow=follow, wait=wait)))


async def _submit(
    asked: CliRequest, display: DisplayOptions, redis: str | None, data_dir: Path | None, *, follow: bool, wait: bool
) -> int:
    async with connected(redis, data_dir, may_start=False) as client:
        if follow:
            return await submit_and_follow(client, asked, display)
        try:
            job = await asked.submit(client, note)
        except NotConfirmed as error:
            if display.as_json:
                _print({"job": error.job, "confirmed": False, "request_id": error.request_id})
            raise
        if wait:
            return await _wait(client, job, display)
        if (text := await waits_behind(client, job)) is not None:
            note(text)
    _print({"job": job} if display.as_json else job)
    return 0


async def _wait(client: Client, job: str, display: DisplayOptions) -> int:
    """Print the answer once there is one; warnings and failures go to standard error."""
    view = _Quiet()
    follower = Follower(client, job, view, is_live=False, outage_s=display.outage_s)
    code = await watch_to_end(follower, display)
    if view.end is not None:
        _print_end(job, view.end, as_json=display.as_json)
    return code


def _print_end(job: str, end: Ended, *, as_json: bool) -> None:
    if as_json:
        _print({"job": job, **end.model_dump(mode="json", exclude_none=True, include=_END_FIELDS)})
    elif end.answer is not None:
        _print(end.answer)
    else:
        note(f"ekiden: job {job} {end.status} ({end.reason}): {end.error or ''}")


_END_FIELDS = {"status", "reason", "answer", "error"}


class _Quiet:
    """A view that shows notes only, on standard error, and keeps the end."""

    def __init__(self) -> None:
        self.end: Ended | None = None

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        if isinstance(entry.record, Ended):
            self.end = entry.record

    def learn(self, entry: Entry) -> None:
        """See ``View``."""

    def below(self, job: str) -> "_Quiet":
        """See ``View``."""
        return _Quiet()

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""

    def note(self, text: str) -> None:
        """See ``View``."""
        note(text)

    def tick(self) -> None:
        """See ``View``."""


def _print(value: object) -> None:
    say(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
