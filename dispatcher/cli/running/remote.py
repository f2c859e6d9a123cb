"""Jobs on the pools that serve a server somewhere."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ekiden.dispatcher.cli.running.agent_choice import choose_instead
from ekiden.dispatcher.cli.running.request import folder_there
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.cli.views.header import print_header, title_of
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.shared.errors import InvalidRequest, NotConfirmed
from ekiden.shared.ids import session_of
from ekiden.shared.terminal_text import note

__all__ = ["run_elsewhere", "submit_and_follow"]


async def submit_and_follow(client: Client, asked: CliRequest, display: DisplayOptions) -> int:
    """Submit, show the job until it ends, and return the exit code.

    Where nobody was found for it, and somebody can be asked, it is submitted once more to whom the user names.
    """
    asked = replace(asked, asks=display.may_ask)
    while True:
        try:
            job = await asked.submit(client, note)
        except NotConfirmed as error:
            if display.as_json:
                display.follower(client, error.job).view.note(str(error))
            raise
        code = await watch_to_end(display.follower(client, job, after=asked.after), display)
        agent = await choose_instead(client, job, code) if display.may_ask else None
        if agent is None:
            return code
        asked = asked.instead(agent, session_of(job))


def run_elsewhere(
    asked: CliRequest | None, cwd: Path | None, redis: str, display: DisplayOptions, *, has_header: bool = False
) -> int:
    """Use the pools that serve a configured server. ``has_header``: say first whom one talks to."""
    if asked is None:
        raise InvalidRequest("--unfinished is for the embedded server: the pools of a Redis server go on by themselves")

    return asyncio.run(_submit_there(replace(asked, cwd=folder_there(cwd)), redis, display, has_header))


async def _submit_there(asked: CliRequest, redis: str, display: DisplayOptions, has_header: bool) -> int:
    async with client_of(redis) as client:
        if has_header and asked.agent is not None and not display.as_json:
            print_header(await title_of(client, asked.agent))
        return await submit_and_follow(client, asked, display)
