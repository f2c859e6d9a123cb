"""``ekiden agents run``: one agent, asked once or talked to, with a history of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.connection import configured
from ekiden.dispatcher.cli.options import (
    Approve,
    AsJson,
    Continue,
    DataDir,
    Deadline,
    Input,
    NonInteractive,
    Outage,
    Redis,
    Session,
    State,
    Thoughts,
    Trace,
    Trust,
    User,
)
from ekiden.dispatcher.cli.running.chat import chat_anywhere
from ekiden.dispatcher.cli.running.embedded import run_here
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.remote import run_elsewhere
from ekiden.dispatcher.cli.running.repl import Chat
from ekiden.dispatcher.cli.running.request import Workspace, deadline_of, prompt_of, settle_folders, user_name
from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.dispatcher.cli.running.variables import inputs_of, variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions
from ekiden.dispatcher.cli.views.header import print_header
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.shared.errors import InvalidRequest

__all__ = ["run"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")],
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Ask this; - reads standard input.")] = None,
    interactive: Annotated[bool, typer.Option("--interactive", "-i", help="Talk to it; so it is without -p.")] = False,
    cwd: Annotated[Path | None, typer.Option(metavar="DIR", help="The project. [the current folder]")] = None,
    session: Session = None,
    is_continued: Continue = False,
    user: User = None,
    state: State = None,
    inputs: Input = None,
    deadline: Deadline = None,
    approve: Approve = None,
    non_interactive: NonInteractive = None,
    unfinished: Annotated[
        UnfinishedChoice | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    thoughts: Thoughts = False,
    trace: Trace = False,
    timeout: Outage = 60.0,
    as_json: AsJson = False,
    agents_dir: Annotated[
        list[Path] | None, typer.Option("--agents-dir", metavar="DIR", help="A further folder of agent files.")
    ] = None,
    trust: Trust = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Run one agent: once with -p, else as a chat. Its sessions are its own: --continue finds the newest."""
    if prompt is not None and interactive:
        raise InvalidRequest("-p and -i exclude each other: ask once, or talk")
    preapproval = Preapproval.of(approve, non_interactive)
    settle_folders(trust, cwd)
    session_choice = SessionChoice(user_name(user), session, is_continued)
    display = DisplayOptions(
        as_json,
        thoughts,
        outage_s=timeout,
        trace=trace and not as_json,
        asks_people=non_interactive is None,
        leaves=True,
    )
    folders = [*(ctx.obj or []), *(agents_dir or [])]
    deadline_s, variables = deadline_of(deadline), variables_of(state)
    if prompt is not None:
        asked = CliRequest(
            prompt_of([prompt]),
            session_choice,
            name,
            cwd,
            deadline_s=deadline_s,
            state=variables,
            preapproval=preapproval,
            inputs=inputs_of(inputs),
        )
        raise typer.Exit(_run_once(asked, display, folders, redis, data_dir, unfinished))
    if as_json or trace:
        raise InvalidRequest(f"{'--json' if as_json else '--trace'} is for -p: a chat is for people")

    chat = Chat(session_choice, name, cwd, deadline_s, display, variables, preapproval, inputs_of(inputs))
    raise typer.Exit(chat_anywhere(chat, redis, data_dir, unfinished=unfinished, agents_dirs=folders))


def _run_once(
    asked: CliRequest,
    display: DisplayOptions,
    folders: list[Path],
    redis: str | None,
    data_dir: Path | None,
    unfinished: UnfinishedChoice | None,
) -> int:
    assert asked.agent is not None
    url, data = configured(redis, data_dir)
    if url:
        return run_elsewhere(asked, asked.cwd, url, display, has_header=True)
    place = Workspace.of(asked.cwd, None)
    title = _local_title(asked.agent, folders, place.folder)
    if not display.as_json:
        print_header(title)

    return run_here(replace(asked, cwd=None), place, data, display, unfinished=unfinished, agents_dirs=folders)


def _local_title(agent: str, folders: list[Path], project: Path) -> str:
    """Return the title that the agent's file gives. Raises ``UnknownAgent`` with the near names."""
    file = open_agents(folders, project=project).get(agent)
    return file.definition.title if file.definition else agent
