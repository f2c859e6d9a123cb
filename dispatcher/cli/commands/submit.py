"""``ekiden submit``: hand a request to pools that run elsewhere."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.options import (
    Approve,
    AsJson,
    Continue,
    DataDir,
    Deadline,
    Input,
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

__all__ = ["submit"]


def submit(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT…", help="What is to be done; - is standard input, as is a pipe without words."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="REQUESTS", help="Many requests: a file with a JSON object a line; - standard input."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RESULTS", help="With --file: where results go; what is there already is not done again."),
    ] = None,
    in_flight: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1_000, help="With --file: jobs at a time. [50]")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --file: the same lines under another name are new jobs.")
    ] = None,
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
    inputs: Input = None,
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
    from ekiden.dispatcher.cli.connection import configured
    from ekiden.dispatcher.cli.running.plain import Watching, submit_and_print  # half a second, which --help has not
    from ekiden.dispatcher.cli.running.preapproval import Preapproval
    from ekiden.dispatcher.cli.running.request import deadline_of, folder_there, piped, settle_folders, user_name
    from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
    from ekiden.dispatcher.cli.running.variables import inputs_of, variables_of
    from ekiden.shared.errors import InvalidRequest

    if follow and wait:
        raise InvalidRequest("--follow and --wait exclude each other: leave one out")
    preapproval = Preapproval.of(approve, non_interactive)
    settle_folders(trust)
    if file is not None:
        from ekiden.dispatcher.cli.running.batch_command import BatchOptions, ForAll, submit_batch

        alone = {"PROMPT": prompt, "--session": session, "--continue": is_continued, "--request-id": request_id}
        alone |= {"--follow": follow, "--wait": wait, "--session-policy": session_policy}
        options = BatchOptions(file, out, in_flight or 50, batch or "", alone)
        for_all = ForAll(agent, strategy, cwd, user, deadline, variables_of(state), preapproval, inputs_of(inputs))
        raise typer.Exit(submit_batch(options, for_all, redis, data_dir))
    asked = CliRequest(
        _prompt(prompt or piped(), {"--out": out, "--in-flight": in_flight, "--batch": batch}),
        SessionChoice(user_name(user), session, is_continued, session_policy),
        agent,
        folder_there(cwd),
        on_busy,
        deadline_of(deadline),
        request_id,
        state=variables_of(state),
        preapproval=preapproval,
        inputs=inputs_of(inputs),
    ).overridden(strategy)
    watching: Watching | None = None
    if follow or wait:
        from ekiden.dispatcher.cli.running.remote import submit_and_follow
        from ekiden.dispatcher.cli.running.waiting import submit_and_wait
        from ekiden.dispatcher.cli.running.watch import DisplayOptions

        display = DisplayOptions(
            as_json,
            thoughts,
            outage_s=timeout,
            verbose=verbose,
            asks_people=non_interactive is None,
            leaves=True,
            is_local=configured(redis, data_dir)[0] is None,
        )
        watching = partial(submit_and_follow if follow else submit_and_wait, asked=asked, display=display)
    raise typer.Exit(asyncio.run(submit_and_print(asked, redis, data_dir, watching, as_json=as_json)))


def _prompt(words: Sequence[str], of_batches: Mapping[str, object]) -> str:
    """Return the prompt of a single request. Raises ``InvalidRequest`` where there is none, or options of many."""
    from ekiden.dispatcher.cli.running.request import prompt_of
    from ekiden.shared.errors import InvalidRequest

    if wrong := [option for option, value in of_batches.items() if value is not None]:
        raise InvalidRequest(f"{wrong[0]} is for many requests: name their file by --file, or leave it out")
    if not words:
        raise InvalidRequest("say what is to be done: `ekiden submit PROMPT`, or many requests by --file")
    return prompt_of(words)
