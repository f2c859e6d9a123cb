"""The relay without Celery: messages are taken off their queues one by one and given to the real runners."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from ekiden.dispatcher.dispatch import DispatchHandler
from ekiden.dispatcher.routing.base import Router
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.shared.approvals import WhenAsked
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.guardrail_parsing import request_guardrails
from ekiden.shared.definitions.model import AfterUntrusted
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.environments import for_tools
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.hooks.intervening import Intervening
from ekiden.shared.job_limits import NO_BUDGETS, Budgets
from ekiden.shared.llm.admission import AdmittedModel
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelChoice, ModelValues, choose_all
from ekiden.shared.memory.base import Embedder
from ekiden.shared.memory.recollections import Recollections
from ekiden.shared.messages import Message
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.policy.engine import Policy
from ekiden.shared.prices import Prices
from ekiden.shared.records import Ended, HandedOff, JobRequested, ModelReplied, Record, Refused, Retried, ToolFinished
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Handler, journal_of
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.relay.runner import Runner
from ekiden.shared.request_rails import RequestRails
from ekiden.shared.risk import Risk
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import JobView
from ekiden.workers.definitions import Definitions
from ekiden.workers.graphs.handler import GraphHandler
from ekiden.workers.leg import AgentHandler, Means
from ekiden.workers.memory import Remember, Remembering, nothing
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.own_tools import OwnTools, Servers
from ekiden.workers.playback.models import RecordedCallers
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.playback.tools import RecordedToolRunner
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.registry import Registry
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.validators import Validators
from tests.conftest import real_backend
from tests.contract.relay_world import claimed, submission
from tests.invariants import faults_of_job

__all__ = ["Listener", "Relay", "Story", "assert_well_formed", "on_server", "team", "text_of"]

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def on_server(scenario: Callable[[Stores], Awaitable[T]]) -> T:
    """Run ``scenario`` on an empty database."""
    return real_backend().run(scenario)


def team(*agents: Mapping[str, Any]) -> Catalog:
    """Make the catalog of these front matters; ``description`` and ``prompt`` (the body) may be absent."""
    return _team(json.dumps(agents))


@cache
def _team(agents: str) -> Catalog:
    made = [
        definition_from(
            {"description": f"Does {agent['name']}.", "tools": "*", **agent},
            agent.get("prompt", f"You: {agent['name']}."),
        )
        for agent in json.loads(agents)
    ]
    catalog, problems = build_catalog(made)
    assert not [problem for problem in problems if problem.severity == "error"], problems
    return catalog


class Listener:
    """A model that keeps what another one is asked, and checks that no vendor would refuse it."""

    def __init__(self, model: ChatModel) -> None:
        self.requests: list[ModelRequest] = []
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        assert_well_formed(request)
        self.requests.append(request)
        return await self._model.reply(request, on_delta)

    def asked(self, agent: str) -> list[ModelRequest]:
        """What ``agent``'s turns asked, in order."""
        return [request for request in self.requests if request.agent == agent]


def assert_well_formed(request: ModelRequest) -> None:
    """The user begins; every model message with calls is followed by their results, one each, in call order."""
    names = [tool.name for tool in request.tools]
    assert len(names) == len(set(names)), names
    roles = [message.role for message in request.messages]
    assert roles[0] == "user", roles
    assert ("user", "user") not in pairwise(roles), roles
    for message, following in zip(request.messages, (*request.messages[1:], None), strict=True):
        if message.role == "model":
            assert following is not None
            assert message.calls or following.role == "user", "a text without calls is an answer, or was nudged"
        if message.role == "model" and message.calls:
            assert following is not None
            assert [call.id for call in message.calls] == [result.call_id for result in following.results]
        assert message.role != "tool" or message.results


@dataclass(frozen=True)
class Story:
    """What became of a job."""

    view: JobView
    records: list[Record]

    def of(self, kind: type[R]) -> list[R]:
        """The records of one kind, in order."""
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def chain(self) -> list[str]:
        """The agents that had control, in order."""
        return [record.context.to_agent for record in self.of(HandedOff)]

    @property
    def codes(self) -> list[str]:
        """Why transfers were refused."""
        return [record.code for record in self.of(Refused)]

    @property
    def results(self) -> dict[str, str]:
        """What the finished tool calls gave, by call id."""
        return {record.result.call_id: record.result.content for record in self.of(ToolFinished)}

    @property
    def end(self) -> Ended:
        """How the job ended."""
        return self.of(Ended)[-1]


ASKS_NOBODY = Policy(auto_approve=frozenset({"safe", "low", "medium", "high"}))


@cache
def _choices(names: tuple[str | None, ...], window: int | None) -> tuple[ModelChoice, ...]:
    """Models that read as much as they are to read."""
    chosen = choose_all(names, ModelValues(), {})
    if window is None:
        return chosen
    return tuple(replace(choice, provider=replace(choice.provider, windows={"": window})) for choice in chosen)


class _OneModel(Models):
    """Serves every agent with the same model."""

    def __init__(self, model: ChatModel, window: int | None) -> None:
        super().__init__(ModelValues(), {})
        self._model = model
        self._window = window

    def choose_all(self, names: Iterable[str | None]) -> tuple[ModelChoice, ...]:
        """Return what the agents' files name."""
        return _choices(tuple(names), self._window)

    def model(self, choice: ModelChoice, *, has_fallback: bool = False) -> ChatModel:
        return AdmittedModel(self._model)


def _remember(stores: Stores, embedder: Embedder | None) -> Remember:
    if embedder is None:
        return nothing
    return Remembering(Recollections(stores.memories, lambda *_: embedder).of, stores.sessions).of


_TAKE = """
local queues = redis.call('SMEMBERS', KEYS[1])
table.sort(queues)
for _, queue in ipairs(queues) do
  local message = redis.call('RPOP', queue)
  if message then return {queue, message} end
end
"""


class Relay:
    """A dispatcher and a worker for everything, with real handlers, runners and stores."""

    def __init__(
        self,
        stores: Stores,
        catalog: Catalog,
        model: ChatModel,
        *,
        tools: Iterable[Tool] = (),
        cycles: str = "parent",
        fallback: str = "prompt_user",
        root: Path | None = None,
        lease_s: float = 30.0,
        after_untrusted: AfterUntrusted = "allow",
        policy: Policy = ASKS_NOBODY,
        sandbox: Sandbox = OFF,
        hooks: Iterable[Intervening] = (),
        window: int | None = None,
        validators: Mapping[str, Callable[[Any], Any]] | None = None,
        validators_s: float = 30.0,
        is_live: bool = False,
        limits: Mapping[str, ModelLimitValues] | None = None,
        budgets: Budgets = NO_BUDGETS,
        prices: Mapping[str, tuple[float, float]] | None = None,
        embedder: Embedder | None = None,
        request_rails: Iterable[Mapping[str, Any]] = (),
        recordings: Recordings | None = None,
        worker: Handler | None = None,
        servers: Servers | None = None,
        router: Router | None = None,
    ) -> None:
        """Put it together.

        ``recordings``: models and tools give what is there; ``worker``: does the legs in place of all this;
        ``validators_s``: how long each of the ``validators`` may take.
        """
        self.stores = stores
        self._take = stores.client.register_script(_TAKE)
        self._catalog = catalog
        registry, asking = Registry(tools), HookAsking(hooks)
        definitions = Definitions(stores.catalogs)
        root = root.resolve() if root else None
        limited = ModelLimits(stores.model_limits, limits or {}, {})
        models = ModelCallers(_OneModel(model, window), Prices(prices), limited)
        runner = ToolRunner(registry, 2)
        if recordings is not None:
            runner = RecordedToolRunner(recordings, registry)
            models = RecordedCallers(models.models, models.prices, recordings=recordings)
        agents = AgentHandler(
            definitions,
            Means(
                OwnTools(registry, root=root, servers=servers, keep=stores.listings.keep, pools=stores.pools.pools),
                runner,
                models,
                ToolEnvironment(root, for_tools(os.environ), sandbox=sandbox, artifacts=stores.artifacts),
                asking,
                _remember(stores, embedder),
            ),
            after_untrusted=after_untrusted,
            policy=policy,
            validators=Validators(validators, validators_s),
        )
        self._leases = leases = Leases(lease_s)
        rails = RequestRails(request_guardrails(list(request_rails)))
        routes = DispatchHandler(
            catalog,
            router or RuleRouter(),
            fallback,
            stores.sessions,
            hooks=asking,
            budgets=budgets,
            usage=stores.usage,
            limits=limited,
            rails=rails,
        )
        self._dispatcher = Runner(stores.jobs, leases, routes, cycles=cycles)
        handler = worker or GraphHandler(definitions, agents, rails)
        self._worker = Runner(
            stores.jobs, leases, handler, cycles=cycles, sessions=stores.sessions, live=stores.live if is_live else None
        )

    async def submit(
        self,
        prompt: str,
        *,
        agent: str | None = None,
        cwd: Path | None = None,
        session: str | None = None,
        state: Mapping[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        approve: tuple[Risk, ...] = (),
        when_asked: WhenAsked = "park",
    ) -> str:
        """Publish the catalog, create a job and return its id."""
        in_force = await self.stores.catalogs.current()
        await self.stores.catalogs.publish(*self._catalog.to_store(), replaces=in_force)
        job = await self.stores.jobs.reserve(session, prompt)
        folder = str(cwd) if cwd else None
        said: dict[str, Any] = {"approve": approve, "when_asked": when_asked, "inputs": inputs}
        request = JobRequested(prompt=prompt, agent=agent, cwd=folder, state=dict(state or {}), **said)
        assert await self.stores.jobs.submit(replace(submission(job), request=request))
        return job

    async def step(self) -> str | None:
        """Run the next message, if there is one, and return what became of it."""
        if (taken := await as_any(self._take(keys=[keys.QUEUES]))) is None:
            return None
        queue, text = taken
        runner = self._dispatcher if queue == DISPATCH_QUEUE else self._worker
        return await runner.run(json.loads(json.loads(text)["body"])[0][0], queue)

    async def drain(self) -> list[str]:
        """Run messages until there are none."""
        verdicts = []
        while (verdict := await self.step()) is not None:
            verdicts.append(verdict)
        return verdicts

    def stop(self, job: str) -> None:
        """Tell the worker that somebody has stopped a job whose leg it runs."""
        self._leases.cancelled(job)

    async def wake(self, job: str) -> str:
        """Let the job's timer ring, or its lease run out, and push its message again."""
        await self.stores.client.zadd(keys.TIMERS, {job: 0})
        return await self.stores.jobs.requeue(job, 0.0, 5)

    async def lose(self, job: str, records: Iterable[Record]) -> None:
        """Let a worker begin the job's leg, write ``records`` and die."""
        lost = await claimed(self.stores, job, owner="lost", lease_s=0.0)
        for number, record in enumerate(records):
            token = f"{lost.lease.fence}.{number}"
            is_progress = isinstance(record, ModelReplied | ToolFinished)
            await self.stores.jobs.append(lost.lease, token, [record], used_ms=1, is_progress=is_progress)

    async def retry(self, job: str) -> None:
        """Let a job that failed go on, as a user would, and run it to its end."""
        view = await self.stores.jobs.job(job)
        context = (await self.story(job)).of(HandedOff)[-1].context.with_id(view.handoff_id)
        box = outbox(job, view.leg, view.queue, context)
        await self.stores.jobs.retry(job, box, Retried(leg=view.leg), 3600.0)
        await self.drain()

    async def story(self, job: str) -> Story:
        """Read what became of the job so far; its journal keeps to what every journal does."""
        entries, view = await journal_of(self.stores.jobs, job), await self.stores.jobs.job(job)
        faults = faults_of_job(view, entries)
        assert not faults, faults
        return Story(view, [entry.record for entry in entries])

    async def told(self, prompt: str, *, agent: str | None = None, cwd: Path | None = None) -> Story:
        """Submit a job, run it to its end and return its story."""
        job = await self.submit(prompt, agent=agent, cwd=cwd)
        async with asyncio.timeout(30):
            await self.drain()
        return await self.story(job)


def text_of(messages: Iterable[Message]) -> str:
    """Everything that a model can read in these messages."""
    parts = (part for message in messages for part in message.parts)
    return "\n".join(part.model_dump_json() for part in parts)
