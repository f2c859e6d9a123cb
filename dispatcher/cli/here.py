"""``ekiden run`` on the embedded server: pools of its own, unless an ``ekiden up`` serves the folder."""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

from dispatcher.cli.abandoned import settle_abandoned
from dispatcher.cli.follow import Interrupted, follow, interruptible
from dispatcher.cli.neighbours import Neighbours, root_of_up
from dispatcher.cli.options import Abandoned
from dispatcher.cli.request import Workplace
from dispatcher.cli.show import View, exit_code_of, view_for
from dispatcher.cli.stack import Stack
from dispatcher.cli.submit import submit_and_follow
from dispatcher.client import Client
from shared.embedded import attach, peek
from shared.errors import EkidenError

__all__ = ["Order", "run_here"]

_CANCEL_S = 5.0
"""How long a cancelled job may take to end before its pools are stopped all the same."""


@dataclass(frozen=True)
class Order:
    """What ``run`` was told. ``prompt`` None: only what an earlier command left unfinished."""

    prompt: str | None
    agent: str | None
    place: Workplace
    as_json: bool


def run_here(order: Order, data_dir: Path, abandoned: Abandoned | None) -> int:
    """Start what is needed, carry the order out, stop what was started; return the exit code."""
    is_fresh = not peek(data_dir)
    with attach(data_dir) as server, Neighbours(data_dir) as neighbours:
        resumed = [] if is_fresh else settle_abandoned(server.url, neighbours, abandoned)
        neighbours.join()
        if order.prompt is None and not resumed:
            return 0
        root = root_of_up(data_dir)
        if root is not None and order.place.folder.is_relative_to(root):
            return asyncio.run(_use_up(server.url, order))
        with Stack(server.url, data_dir, order.place.root, agents_dirs=_agents_of(order.place.folder)) as stack:
            return asyncio.run(_Relay(stack, order).run(resumed))


def _agents_of(folder: Path) -> list[Path]:
    """The project's own agents, where the project is not the current folder, whose agents are read anyway."""
    if folder == Path.cwd().resolve():
        return []
    from shared.definitions.loader import AGENTS_FOLDER
    from shared.settings import load_settings

    own = [folder / AGENTS_FOLDER] if (folder / AGENTS_FOLDER).is_dir() else []
    return [*own, *load_settings().agents_dir]


async def _use_up(url: str, order: Order) -> int:
    request = {"prompt": order.prompt, "agent": order.agent, "cwd": str(order.place.folder)}
    async with Client(url) as client:
        return await submit_and_follow(client, request, as_json=order.as_json)


class _Relay:
    """Jobs on pools of our own."""

    def __init__(self, stack: Stack, order: Order) -> None:
        self._stack = stack
        self._order = order
        self._told: set[str] = set()

    async def run(self, resumed: list[str]) -> int:
        """See our own job through, then the resumed ones; return the first one's exit code."""
        async with Client(self._stack.url) as client:
            jobs = [*([await self._submit(client)] if self._order.prompt is not None else []), *resumed]
            codes = []
            for job in jobs:
                codes.append(await self._see_through(client, job))
                if codes[-1] == 130:
                    return 130
            return codes[0]

    async def _submit(self, client: Client) -> str:
        order = self._order
        assert order.prompt is not None
        if order.agent is not None:  # the catalog in force must be our dispatcher's, not one from yesterday
            await self._stack.ready(client)
        return await client.submit(order.prompt, agent=order.agent, cwd=order.place.folder)

    async def _see_through(self, client: Client, job: str) -> int:
        view = view_for(job, as_json=self._order.as_json)
        seen = asyncio.create_task(follow(client, job, view, is_served=True))
        watch = asyncio.create_task(self._stack.watch(lambda: self._tell_problems(view)))
        try:
            async with interruptible():
                await asyncio.wait({seen, watch}, return_when=asyncio.FIRST_COMPLETED)
            end = seen.result() if seen.done() else watch.result()
            assert end is not None, "watching ends by an error only"
            return exit_code_of(end.status, end.reason)
        except Interrupted:
            view.note("cancelling the job (Ctrl-C again stops at once)")
            await self._cancel(client, job, seen)
            return 130
        except (EkidenError, OSError):  # a pool ended, the server is gone, nobody reads our output
            await self._cancel(client, job, seen)
            raise
        finally:
            self._tell_problems(view)
            seen.cancel()
            watch.cancel()

    async def _cancel(self, client: Client, job: str, seen: "asyncio.Task[object]") -> None:
        """Leave no unfinished job behind, if that is possible in a few seconds."""
        with contextlib.suppress(EkidenError, OSError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                if await client.cancel(job) != "flagged" or self._stack.ended() is None:
                    await seen

    def _tell_problems(self, view: View) -> None:
        for problem in self._stack.agent_file_errors():
            if problem not in self._told:
                self._told.add(problem)
                view.note(f"agent file {problem}")
