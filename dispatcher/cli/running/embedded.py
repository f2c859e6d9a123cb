"""Jobs on the embedded server: with pools of our own, unless an ``ekiden up`` serves the folder."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, exit_code_of
from ekiden.dispatcher.cli.running.agent_choice import choose_instead
from ekiden.dispatcher.cli.running.questions import LeftWaiting
from ekiden.dispatcher.cli.running.remote import submit_and_follow
from ekiden.dispatcher.cli.running.request import Workspace
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_job
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.journal.follower import Follower
from ekiden.dispatcher.local.access import embedded_access, own_pools
from ekiden.dispatcher.local.stack import Stack
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.shared.errors import EkidenError
from ekiden.shared.ids import session_of
from ekiden.shared.processes.grace_periods import JOB_S
from ekiden.shared.terminal_text import note

__all__ = ["run_here"]

_URGENT_S = 1.0


def run_here(
    asked: CliRequest | None,
    place: Workspace,
    data_dir: Path,
    display: DisplayOptions,
    *,
    unfinished: UnfinishedChoice | None = None,
    agents_dirs: Sequence[Path] = (),
) -> int:
    """Start what is needed, see the job through, stop what was started; return the exit code.

    ``asked`` None: only what an earlier command left unfinished.
    """
    display = replace(display, is_local=True)
    with embedded_access(data_dir, unfinished, is_new=asked is not None and asked.session_choice.is_new) as access:
        if asked is None and not access.resumed:
            return 0
        with own_pools(access, place.folder, place.root, agents_dirs, place.packs) as stack:
            ours = asked and replace(asked, cwd=place.folder)
            if stack is None:
                return asyncio.run(_use_up(access.url, ours, display)) if ours else 0
            return asyncio.run(_Relay(stack, display).run(ours, access.resumed))


async def _use_up(url: str, asked: CliRequest, display: DisplayOptions) -> int:
    async with client_of(url) as client:
        return await submit_and_follow(client, asked, display)


class _Relay:
    """Jobs on pools of our own."""

    def __init__(self, stack: Stack, display: DisplayOptions) -> None:
        self._stack = stack
        self._display = display

    async def run(self, asked: CliRequest | None, resumed: list[str]) -> int:
        """See our own job through, then the resumed ones; return the first one's exit code."""
        async with client_of(self._stack.url) as client:
            codes = [] if asked is None else [await self._serve(client, asked)]
            for job in resumed:
                if INTERRUPTED not in codes:
                    codes.append(await self._see_through(self._display.follower(client, job, is_served=True)))
            return INTERRUPTED if INTERRUPTED in codes else codes[0]

    async def _serve(self, client: Client, asked: CliRequest) -> int:
        """See a request through; where nobody is found for it, with whom the user names."""
        asked = replace(asked, asks=self._display.may_ask)
        while True:
            job = await self._submit(client, asked)
            code = await self._see_through(self._display.follower(client, job, is_served=True, after=asked.after))
            agent = await choose_instead(client, job, code) if self._display.may_ask else None
            if agent is None:
                return code
            asked = asked.instead(agent, session_of(job))

    async def _submit(self, client: Client, asked: CliRequest) -> str:
        if asked.agent is not None or asked.strategy is not None:
            await self._stack.ready(client)  # the catalog and the routers must be our dispatcher's, not yesterday's
        return await asked.submit(client, note, is_served=True)

    async def _see_through(self, follower: Follower) -> int:
        stack = self._stack
        watch = asyncio.create_task(stack.watch(lambda: stack.tell_problems(follower.view.note)))
        try:
            questions = self._display.questions(follower)
            end = await watch_job(follower, questions, watch, may_ask=self._display.may_ask)
            return exit_code_of(end.status, end.reason)
        except LeftWaiting as left:
            follower.view.note(
                "the job is kept: once that is answered, `ekiden run --unfinished resume` goes on with it"
            )
            return left.code
        except Interrupted as stop:
            follower.view.note("cancelling the job (Ctrl-C again stops at once)")
            await self._cancel(follower, follower.run, _URGENT_S if stop.is_urgent else JOB_S)
            return INTERRUPTED
        except (EkidenError, OSError):  # a pool ended, the server is gone, nobody reads our output
            await self._cancel(follower, lambda: follower.client.wait(follower.job), JOB_S)
            raise
        finally:
            stack.tell_problems(follower.view.note)
            watch.cancel()

    async def _cancel(self, follower: Follower, end: Callable[[], Awaitable[object]], within_s: float) -> None:
        """Leave no unfinished job behind, if that is possible in a few seconds; ``end`` waits for it."""
        with contextlib.suppress(EkidenError, OSError, TimeoutError):
            async with asyncio.timeout(within_s):
                if await follower.client.cancel(follower.job) != "flagged" or self._stack.ended() is None:
                    await end()
