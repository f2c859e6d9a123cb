"""``ekiden run``: the whole relay for one request."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import configured
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
    Trace,
    Trust,
    User,
    Verbose,
)
from ekiden.dispatcher.cli.running.embedded import run_here
from ekiden.dispatcher.cli.running.preapproval import DEMO, Preapproval
from ekiden.dispatcher.cli.running.remote import run_elsewhere
from ekiden.dispatcher.cli.running.request import (
    DEMO_PACKS,
    DEMO_PROMPT,
    Workspace,
    deadline_of,
    demo_project,
    piped,
    prompt_of,
    settle_folders,
    user_name,
)
from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.dispatcher.cli.running.variables import inputs_of, variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import say

__all__ = ["run"]


def run(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROMPT]…", help="What is to be done; - is standard input, as is a pipe without words."
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Work on a copy of a small broken project.")] = False,
    cwd: Annotated[Path | None, typer.Option(metavar="DIR", help="The project. [the current folder]")] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who takes it, instead of the router.")] = None,
    strategy: Strategy = None,
    workspace_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="File tools never leave this folder; doctor says what confines bash. [--cwd]"),
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
    unfinished: Annotated[
        UnfinishedChoice | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    thoughts: Thoughts = False,
    trace: Trace = False,
    verbose: Verbose = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    trust: Trust = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Route a request, hand it from agent to agent, and print the answer.

    Starts all it needs and stops it again. With a Redis address, it uses the pools that serve that server.
    An agent that has the tool bash runs any command as you: `ekiden doctor` says what confines it.
    """
    if demo and (cwd or workspace_root):
        raise InvalidRequest("--demo makes a folder of its own: leave out --cwd and --workspace-root")
    if not prompt and not demo and unfinished is None:
        prompt = piped()
    if not prompt and not demo and unfinished is None:
        raise InvalidRequest('nothing to do: say what, as in `ekiden run "the tests fail"`, or try `ekiden run --demo`')
    if not prompt and demo:
        prompt = [DEMO_PROMPT]
    preapproval = Preapproval.of(approve, non_interactive)
    if demo and approve is None:
        preapproval = replace(preapproval, risks=DEMO)
    settle_folders(trust, cwd)
    session_choice = SessionChoice(user_name(user), session, is_continued, session_policy)
    asked = None
    if prompt:
        asked = CliRequest(
            prompt_of(prompt),
            session_choice,
            agent,
            on_busy=on_busy,
            deadline_s=deadline_of(deadline),
            state=variables_of(state),
            preapproval=preapproval,
            inputs=inputs_of(inputs),
        ).overridden(strategy)
    url, data = configured(redis, data_dir)
    if demo:
        cwd = demo_project()
        say(f"The demo project is in {cwd}", is_error=as_json)
    display = DisplayOptions(
        as_json,
        thoughts,
        outage_s=timeout,
        trace=trace and not as_json,
        verbose=verbose,
        asks_people=non_interactive is None,
        leaves=True,
    )
    if url:
        raise typer.Exit(run_elsewhere(asked, cwd, url, display))
    place = Workspace.of(cwd, workspace_root)
    if demo:
        place = replace(place, packs=DEMO_PACKS)
    raise typer.Exit(run_here(asked, place, data, display, unfinished=unfinished))
