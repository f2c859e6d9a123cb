"""``ekiden chat``: talk to the agents."""

from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.options import (
    Approve,
    Continue,
    DataDir,
    Deadline,
    NonInteractive,
    Outage,
    Redis,
    Session,
    SessionPolicy,
    State,
    Thoughts,
    Trust,
    User,
)
from ekiden.dispatcher.cli.running.chat import chat_anywhere
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.repl import Chat
from ekiden.dispatcher.cli.running.request import deadline_of, settle_folders, user_name
from ekiden.dispatcher.cli.running.submission import SessionChoice
from ekiden.dispatcher.cli.running.variables import variables_of
from ekiden.dispatcher.cli.running.watch import DisplayOptions
from ekiden.dispatcher.local.unfinished import UnfinishedChoice

__all__ = ["chat"]


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="Whom to talk to, instead of whom the session's policy names."),
    ] = None,
    cwd: Annotated[Path | None, typer.Option(metavar="DIR", help="The project. [the current folder]")] = None,
    workspace_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="File tools never leave this folder; doctor says what confines bash. [--cwd]"),
    ] = None,
    session: Session = None,
    is_continued: Continue = False,
    session_policy: SessionPolicy = None,
    user: User = None,
    state: State = None,
    deadline: Deadline = None,
    approve: Approve = None,
    non_interactive: NonInteractive = None,
    unfinished: Annotated[
        UnfinishedChoice | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    thoughts: Thoughts = False,
    timeout: Outage = 60.0,
    trust: Trust = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Talk to the agents: every line is a request of the same session. Reads lines where there is no terminal."""
    preapproval = Preapproval.of(approve, non_interactive)
    settle_folders(trust, cwd)
    session_choice = SessionChoice(user_name(user), session, is_continued, session_policy)
    display = DisplayOptions(thoughts=thoughts, outage_s=timeout, asks_people=non_interactive is None, leaves=True)
    asked = Chat(session_choice, agent, cwd, deadline_of(deadline), display, variables_of(state), preapproval)
    raise typer.Exit(chat_anywhere(asked, redis, data_dir, workspace_root=workspace_root, unfinished=unfinished))
