"""``ekiden.run``: a request from its words to its answer in one call; what that needs starts and stops with it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.identity import login_name
from ekiden.dispatcher.local.access import embedded_access, own_pools
from ekiden.dispatcher.local.stack import Stack
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.dispatcher.results import Result, result_of
from ekiden.dispatcher.routing.overrides import AUTO, Override, parse_override
from ekiden.shared.errors import EkidenError, InvalidRequest
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.prices import Prices
from ekiden.shared.processes.grace_periods import JOB_S
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.risk import Risk
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["arun", "run"]

P = ParamSpec("P")
R = TypeVar("R")

Folder = str | os.PathLike[str]


async def arun(
    prompt: str,
    *,
    agent: str | None = None,
    agents: Folder | Iterable[Folder] = (),
    cwd: Folder | None = None,
    session: str | None = None,
    state: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    approve: Collection[Risk] = (),
    deadline_s: float | None = None,
    unfinished: UnfinishedChoice | None = None,
    trust: bool = False,
    redis_url: str | None = None,
) -> Result:
    """Route a request, let its agents work, and return what became of it.

    Starts the embedded server, a dispatcher and a worker, and stops them again. Where a server is configured
    (``EKIDEN_REDIS_URL``), or an ``ekiden up`` serves the folder, the pools there do the work. A job that fails is a
    result, too. Cancelled, or interrupted, it cancels the job. Nobody is asked: what is neither harmless nor approved
    in advance is denied.

    Args:
        prompt: What is to be done; ``@name …`` names an agent, as on the command line.
        agent: Who takes it, instead of the router.
        agents: Further folders of agent files.
        cwd: The folder that the job works in, which its tools do not leave; None: the current one.
        session: The conversation that it goes on with: ``Result.session``; None begins a new one.
        state: Session variables to set, JSON.
        inputs: What the named agent's file declares as ``inputs``.
        approve: Risks of which every call is approved in advance: ``["medium"]``.
        deadline_s: Seconds after which it ends as failed; None: as the settings say.
        unfinished: What becomes of jobs that an earlier command left unfinished in this folder.
        trust: Whether the current folder and ``cwd`` may do all that their files ask for, in this process.
        redis_url: The server to use; None: as the settings say.

    Raises:
        InvalidRequest: something of the request cannot be, or earlier jobs are unfinished and nothing is said of them.
        ConfigurationError: the settings, or what it starts, do not work.
        StoreUnavailable: the server does not answer.
    """
    folder = _existing(cwd)
    asked = parse_override(prompt) if agent is None else Override(prompt, agent)
    settle_trust(trust, folder, may_ask=False)
    settings = load_settings(redis_url=redis_url)
    folders = [agents] if isinstance(agents, str | os.PathLike) else list(agents)
    async with _served(settings, folder, list(map(Path, folders)), unfinished, is_new=session is None) as served:
        job = await served.client.submit(
            asked.prompt,
            agent=asked.agent,
            strategy=asked.strategy or (AUTO if asked.is_auto else None),
            cwd=folder if cwd is not None or served.is_local else None,
            session=session,
            user=settings.user or login_name(),
            policy=settings.routing_session_policy,
            deadline_s=deadline_s or settings.job_deadline_s,
            state=state,
            inputs=inputs,
            approve=approve,
            when_asked="deny",
        )
        await served.see_through(job)
        journals = await served.client.journals(job)
    configure_redaction(settings.redact, settings.secrets)
    learn_providers(settings)  # what their models cost
    return result_of(job, journals, Prices(settings.prices), served.problems)


def _blocking(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return the same for programs without a loop."""

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidRequest("an event loop runs here, as in a notebook: use `await ekiden.arun(…)`")
        return asyncio.run(call(*args, **kwargs))

    run.__name__ = run.__qualname__ = "run"
    return run


run = _blocking(arun)


class _Served:
    """A server with pools: our own, or others'."""

    def __init__(self, client: Client, stack: Stack | None, *, is_local: bool) -> None:
        self.client = client
        self.is_local = is_local
        self.problems: list[str] = []
        self._stack = stack

    async def see_through(self, job: str) -> None:
        """Return when the job has ended. Whatever ends this earlier, a cancellation or a pool's end, cancels it."""
        end = asyncio.ensure_future(self.client.wait(job))
        watch = asyncio.ensure_future(self._stack.watch(self._look) if self._stack else asyncio.Event().wait())
        try:
            await asyncio.wait({end, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await watch
            await end
        except BaseException:
            await self._cancel(job)
            raise
        finally:
            self._look()
            for task in (end, watch):
                task.cancel()
            await asyncio.gather(end, watch, return_exceptions=True)

    def _look(self) -> None:
        if self._stack is not None:
            self._stack.tell_problems(self.problems.append, in_full=True)

    async def _cancel(self, job: str) -> None:
        with suppress(EkidenError, OSError, TimeoutError):
            async with asyncio.timeout(JOB_S):
                if await self.client.cancel(job) != "flagged" or not (self._stack and self._stack.ended()):
                    await self.client.wait(job)


@asynccontextmanager
async def _served(
    settings: Settings, folder: Path, agents: list[Path], unfinished: UnfinishedChoice | None, *, is_new: bool
) -> AsyncIterator[_Served]:
    """Yield the configured server, or the embedded one with pools; stop what was started. Off the loop, as it waits."""
    with ExitStack() as entered:
        url, stack = settings.redis_url or "", None
        try:
            if not url:
                url, stack = await _off_the_loop(_started, entered, settings, folder, agents, unfinished, is_new)
            if agents and stack is None:
                raise InvalidRequest(
                    "agents= is for pools that this call starts, and others serve here: publish them there"
                )
            async with client_of(url) as client:
                yield _Served(client, stack, is_local=not settings.redis_url)
        finally:
            await _off_the_loop(entered.close)


async def _off_the_loop(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call it in a thread, and see it to its end also where this is cancelled: nothing is half started, or left."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _started(
    entered: ExitStack,
    settings: Settings,
    folder: Path,
    agents: list[Path],
    unfinished: UnfinishedChoice | None,
    is_new: bool,
) -> tuple[str, Stack | None]:
    data_dir = settings.data_dir.absolute()
    access = entered.enter_context(embedded_access(data_dir, unfinished, is_new=is_new, may_ask=False))
    return access.url, entered.enter_context(own_pools(access, folder, folder, agents))


def _existing(cwd: Folder | None) -> Path:
    folder = Path(cwd or Path())
    if not folder.is_dir():
        raise InvalidRequest(f"cwd {str(folder)!r} is no folder: give one that exists")
    return folder.resolve()
