"""Handlers and messages for tests of the runner."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ekiden.shared.hooks.base import NO_HOOKS, Hook
from ekiden.shared.outcomes import Outcome
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.runner import Runner
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import JobStore
from ekiden.shared.stores.opening import Stores

Move = Outcome | BaseException | Callable[[Leg], Awaitable[Outcome]]


class Playing:
    """A handler that makes one move after the other: an outcome, an exception, or a coroutine function."""

    def __init__(self, *moves: Move) -> None:
        self._moves = list(moves)
        self.legs: list[Leg] = []
        self.begun = asyncio.Event()

    async def run(self, leg: Leg) -> Outcome:
        """Make the next move."""
        self.legs.append(leg)
        self.begun.set()
        move = self._moves.pop(0)
        if isinstance(move, BaseException):
            raise move
        return await move(leg) if callable(move) else move


def runner_of(
    stores: Stores, *moves: Move, lease_s: float = 30.0, store: JobStore | None = None, hooks: Hook = NO_HOOKS
) -> Runner:
    """A runner whose handler makes these moves; ``store`` in the place of the real one."""
    verifier = MessageVerifier(stores.signing, stores.dead_letters)
    leases, handler = Leases(lease_s, hooks), Playing(*moves)
    return Runner(store or stores.jobs, leases, handler, cycles="parent", verifier=verifier, hooks=hooks)


def handler_of(runner: Runner) -> Playing:
    """The handler that ``runner_of`` made."""
    handler = runner._handler
    assert isinstance(handler, Playing)
    return handler


async def take(stores: Stores, queue: str) -> dict[str, Any]:
    """Take the oldest message out of ``queue``: the task's one argument."""
    text = await stores.client.rpop(queue)
    assert isinstance(text, str), f"{queue} is empty"
    message: dict[str, Any] = json.loads(json.loads(text)["body"])[0][0]
    return message


async def types_of(stores: Stores, job: str) -> list[str]:
    """The types of the job's records."""
    return [entry.record.type for entry in await stores.jobs.journal(job)]


async def expire(stores: Stores, job: str) -> None:
    """Let the lease of ``job`` have ended."""
    await stores.client.zadd(keys.LEASES, {job: 1})
