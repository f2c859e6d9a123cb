"""Watch over a job: show it, and know what Ctrl-C means meanwhile."""

import asyncio
from dataclasses import dataclass

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, exit_code_of
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, ask, interruptible, is_on_terminal
from ekiden.dispatcher.cli.views.select import view_for
from ekiden.dispatcher.cli.views.trace_view import TracedView
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import OUTAGE_S, Follower
from ekiden.shared.records import Ended

__all__ = ["DisplayOptions", "watch_job", "watch_to_end"]


@dataclass(frozen=True)
class DisplayOptions:
    """How a job is to be shown; the options of several commands."""

    as_json: bool = False
    thoughts: bool = False
    tail: int | None = None
    outage_s: float = OUTAGE_S
    trace: bool = False
    """Whether the waterfall is drawn at the end."""
    verbose: bool = False
    """Whether session variables are shown as they are set."""

    def follower(self, client: Client, job: str, *, is_served: bool = False, after: int = 0) -> Follower:
        """Return what shows ``job`` so, from behind the journal's place ``after`` on."""
        view = view_for(job, as_json=self.as_json, thoughts=self.thoughts, verbose=self.verbose)
        if self.trace:
            view = TracedView(job, view)
        return Follower(client, job, view, is_served=is_served, after=after, tail=self.tail, outage_s=self.outage_s)

    @property
    def may_ask(self) -> bool:
        """Whether somebody can be asked what Ctrl-C means."""
        return not self.as_json and is_on_terminal()


async def watch_to_end(follower: Follower, *, may_ask: bool) -> int:
    """Show a job of pools elsewhere to its end; return the exit code. Unless it is cancelled, it outlives Ctrl-C."""
    try:
        end = await watch_job(follower, may_ask=may_ask)
    except Interrupted as stop:
        if not stop.wants_cancel:
            return _leave(follower)
        follower.view.note("cancelling the job (Ctrl-C again leaves it)")
        await follower.client.cancel(follower.job)
        try:
            end = await watch_job(follower, may_ask=False)
        except Interrupted:
            return _leave(follower)
    return exit_code_of(end.status, end.reason)


async def watch_job(follower: Follower, guard: asyncio.Task[None] | None = None, *, may_ask: bool) -> Ended:
    """Show a job to its end; ``guard`` ends only by the error that ends this, too.

    Raises:
        Interrupted: Ctrl-C or SIGTERM. Where the user may be asked, "no" goes on, and "yes" is ``wants_cancel``.
    """
    seen = asyncio.create_task(follower.run())
    try:
        while True:
            try:
                async with interruptible():
                    await asyncio.wait({seen, guard} if guard else {seen}, return_when=asyncio.FIRST_COMPLETED)
                if not seen.done():
                    assert guard is not None
                    guard.result()
                return seen.result()
            except Interrupted as stop:
                if not (stop.by_user and may_ask):
                    raise
                if await _is_cancel_wanted(follower):
                    raise Interrupted(by_user=True, wants_cancel=True) from None
    finally:
        seen.cancel()
        await asyncio.gather(seen, return_exceptions=True)


async def _is_cancel_wanted(follower: Follower) -> bool:
    """Ask; nothing else is shown meanwhile."""
    follower.may_show.clear()
    try:
        return await ask("cancel the job?")
    except Interrupted:
        raise Interrupted(by_user=True, is_urgent=True) from None
    finally:
        follower.may_show.set()


def _leave(follower: Follower) -> int:
    """Say that the job goes on without us, and how to see or end it."""
    job = follower.job
    follower.view.note(f"job {job} goes on: `ekiden job follow {job}` shows it, `ekiden job cancel {job}` ends it")
    return INTERRUPTED
