"""Watch over a job: show it, and know what Ctrl-C means meanwhile."""

import asyncio
from dataclasses import dataclass

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, exit_code_of
from ekiden.dispatcher.cli.running.questions import LeftWaiting, Questions
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, ask, interruptible, is_on_terminal
from ekiden.dispatcher.cli.views.select import view_for
from ekiden.dispatcher.cli.views.trace_view import TracedView
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import OUTAGE_S, Follower
from ekiden.shared.errors import StoreUnavailable
from ekiden.shared.records import Ended

__all__ = ["DisplayOptions", "watch_job", "watch_to_end"]

_PAUSE_S = 0.5
"""How long it takes to ask a server again that does not answer."""


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
    asks_people: bool = True
    """Whether somebody at a terminal is asked what the job asks people."""
    leaves: bool = False
    """Whether the command ends, where nobody is asked, once all that is left of the job waits for people."""
    is_local: bool = False
    """Whether jobs work on this machine, in folders that its user may have said something about."""

    def follower(self, client: Client, job: str, *, is_served: bool = False, after: int = 0) -> Follower:
        """Return what shows ``job`` so, from behind the journal's place ``after`` on."""
        view = view_for(job, as_json=self.as_json, thoughts=self.thoughts, verbose=self.verbose)
        if self.trace:
            view = TracedView(job, view)
        return Follower(client, job, view, is_served=is_served, after=after, tail=self.tail, outage_s=self.outage_s)

    def questions(self, follower: Follower) -> Questions:
        """Return what sees to all that the job asks people."""
        return Questions(
            follower.client,
            follower.job,
            follower.view.note,
            may_ask=self.may_ask and self.asks_people,
            leaves=self.leaves,
            is_local=self.is_local,
        )

    @property
    def may_ask(self) -> bool:
        """Whether somebody can be asked what Ctrl-C means."""
        return not self.as_json and is_on_terminal()


async def watch_to_end(follower: Follower, display: DisplayOptions) -> int:
    """Show a job of pools elsewhere to its end; return the exit code. Unless it is cancelled, it outlives Ctrl-C."""
    questions = display.questions(follower)
    try:
        end = await watch_job(follower, questions, may_ask=display.may_ask)
    except LeftWaiting as left:
        return left.code
    except Interrupted as stop:
        if not stop.wants_cancel:
            return _leave(follower)
        follower.view.note("cancelling the job (Ctrl-C again leaves it)")
        await follower.client.cancel(follower.job)
        try:
            end = await watch_job(follower, questions, may_ask=False)
        except (Interrupted, LeftWaiting):
            return _leave(follower)
    return exit_code_of(end.status, end.reason)


async def watch_job(
    follower: Follower, questions: Questions, guard: asyncio.Task[None] | None = None, *, may_ask: bool
) -> Ended:
    """Show a job to its end, and see to what it asks; ``guard`` ends only by the error that ends this, too.

    Raises:
        Interrupted: Ctrl-C or SIGTERM. Where the user may be asked, "no" goes on, and "yes" is ``wants_cancel``.
        LeftWaiting: it waits for people, and the command is not to wait with it.
    """
    seen = asyncio.create_task(follower.run())
    try:
        while True:
            try:
                if await _is_paused(follower, seen, guard):
                    await _settle(follower, questions)
                elif seen.done():
                    return seen.result()
                elif guard is not None:
                    guard.result()
            except Interrupted as stop:
                if not (stop.by_user and may_ask):
                    raise
                if await _is_cancel_wanted(follower):
                    raise Interrupted(by_user=True, wants_cancel=True) from None
    finally:
        seen.cancel()
        await asyncio.gather(seen, return_exceptions=True)


async def _is_paused(follower: Follower, seen: asyncio.Task[Ended], guard: asyncio.Task[None] | None) -> bool:
    """Wait until the job may wait for people, is over, or cannot go on; tell whether it is the first."""
    paused = asyncio.create_task(follower.paused.wait())
    try:
        async with interruptible():
            await asyncio.wait({seen, paused, *((guard,) if guard else ())}, return_when=asyncio.FIRST_COMPLETED)
        return paused.done() and not seen.done() and not (guard and guard.done())
    finally:
        paused.cancel()


async def _settle(follower: Follower, questions: Questions) -> None:
    """See to what is asked; nothing else is shown meanwhile."""
    follower.paused.clear()
    follower.may_show.clear()
    try:
        await questions.settle()
    except StoreUnavailable:  # the follower tells of it, and waits
        follower.paused.set()
        await asyncio.sleep(_PAUSE_S)
    finally:
        follower.may_show.set()


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
