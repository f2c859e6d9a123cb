"""``ekiden chat``: talk to the agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.options import (
    Abandoned,
    Continue,
    DataDir,
    Deadline,
    Outage,
    Redis,
    Session,
    SessionPolicy,
    State,
    Thoughts,
    Trust,
    User,
)
from shared.visible import say

if TYPE_CHECKING:
    from dispatcher.cli.talk import Chat

__all__ = ["chat", "chat_anywhere"]


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="Whom to talk to, instead of whom the session's policy names."),
    ] = None,
    cwd: Annotated[Path | None, typer.Option(metavar="DIR", help="The project. [the current folder]")] = None,
    workspace_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="File tools never leave this folder; nothing confines bash. [--cwd]"),
    ] = None,
    session: Session = None,
    is_continued: Continue = False,
    session_policy: SessionPolicy = None,
    user: User = None,
    state: State = None,
    deadline: Deadline = None,
    abandoned: Annotated[
        Abandoned | None, typer.Option(help="What becomes of jobs that an earlier command left unfinished.")
    ] = None,
    thoughts: Thoughts = False,
    timeout: Outage = 60.0,
    trust: Trust = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Talk to the agents: every line is a request of the same session. Reads lines where there is no terminal."""
    from dispatcher.cli.attend import Showing
    from dispatcher.cli.request import deadline_of, user_name
    from dispatcher.cli.submission import Conversation
    from dispatcher.cli.talk import Chat
    from dispatcher.cli.variables import variables_of
    from shared.asking import settle_trust

    settle_trust(trust, cwd)
    conversation = Conversation(user_name(user), session, is_continued, session_policy)
    showing = Showing(thoughts=thoughts, outage_s=timeout)
    asked = Chat(conversation, agent, cwd, deadline_of(deadline), showing, variables_of(state))
    raise typer.Exit(chat_anywhere(asked, redis, data_dir, workspace_root=workspace_root, abandoned=abandoned))


def chat_anywhere(
    chat: "Chat",
    redis: str | None,
    data_dir: Path | None,
    *,
    workspace_root: Path | None = None,
    abandoned: Abandoned | None = None,
    agents_dirs: Sequence[Path] = (),
) -> int:
    """Chat with the pools of the configured server, or with pools of our own that stay up to the end."""
    import os
    from dataclasses import replace

    from dispatcher.cli.connection import configured
    from dispatcher.cli.here import own_pools, visit
    from dispatcher.cli.lines import lines_here
    from dispatcher.cli.request import Workplace
    from dispatcher.cli.talk import talk

    url, data = configured(redis, data_dir)
    if url:
        folder = None if chat.cwd is None else Path(os.path.realpath(chat.cwd))
        return talk(url, None, replace(chat, cwd=folder), lines_here(None))
    place = Workplace.of(chat.cwd, workspace_root)
    with visit(data, abandoned) as here, own_pools(here, place, agents_dirs) as stack:
        if here.resumed:
            say(f"{len(here.resumed)} earlier job(s) go on beside this: `ekiden jobs` lists them", is_error=True)
        return talk(here.url, stack, replace(chat, cwd=place.folder), lines_here(data / "history"))
