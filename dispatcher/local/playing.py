"""Sees a job through that is played again: persons answer what they answered then."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.errors import AlreadyDecided, ApprovalGone, NotAnApprover
from ekiden.shared.records import Decided, Entry

__all__ = ["answered", "decisions_in", "play_through"]

IDLE_S = 30.0
"""How long nothing may happen in a job that is played again before it is given up."""
_LOOK_S = 0.05


def decisions_in(journals: Mapping[str, Sequence[Entry]]) -> dict[str, Decided]:
    """Return what persons said, by the id of what they were asked."""
    records = (entry.record for entries in journals.values() for entry in entries)
    return {record.id: record for record in records if isinstance(record, Decided)}


async def play_through(
    client: Client, stack: Stack, job: str, decided: Mapping[str, Decided], idle_s: float = IDLE_S
) -> None:
    """Return once the job has ended; it is cancelled where it waits for what nobody said then, or for nothing.

    Raises ``ConfigurationError`` when a pool ends by itself.
    """
    watch = asyncio.create_task(stack.watch(lambda: None))
    playing = asyncio.create_task(_play(client, job, decided, idle_s))
    try:
        await asyncio.wait({watch, playing}, return_when=asyncio.FIRST_COMPLETED)
        await (playing if playing.done() else watch)
    finally:
        watch.cancel()
        playing.cancel()


async def _play(client: Client, job: str, decided: Mapping[str, Decided], idle_s: float) -> None:
    until, seen = time.monotonic() + idle_s, -1
    while not (view := await client.job(job)).is_over:
        below = await client.children(job)
        if (steps := view.seq + sum(child.seq for child in below)) != seen:
            until, seen = time.monotonic() + idle_s, steps
        waiting = await client.approvals(job=job)
        if time.monotonic() > until or not await answered(client, waiting, decided):
            await client.cancel(job)
        await asyncio.sleep(_LOOK_S)


class Answering(Protocol):
    """Takes what persons say: a client."""

    async def answer(self, id: str, answer: Answer) -> ApprovalView:  # noqa: A002  # what everybody calls it
        """Answer an approval once and for all."""
        ...


async def answered(client: Answering, waiting: Iterable[ApprovalView], decided: Mapping[str, Decided]) -> bool:
    """Answer what waits; False: nobody has said anything to one of them."""
    for view in waiting:
        said = decided.get(view.id)
        if said is None or said.digest != view.digest:
            return False
        status = "denied" if said.status == "expired" else said.status
        answer = Answer(
            status, said.digest, said.by, said.origin, said.why, said.answer, said.edited, said.always_for_job
        )
        try:
            await client.answer(view.id, answer)
        except (AlreadyDecided, ApprovalGone):
            continue
        except NotAnApprover:
            return False
    return True
