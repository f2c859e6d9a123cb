"""Pools that kill themselves at a chosen point: ``celery -A tests.e2e.kill_app:worker worker``.

A file in ``KILL_PLANS``, named ``<job>.<leg>`` and holding a point, says where; it is removed just before, so that the
next process goes on. ``.._give_back``: it is told to stop just before the leg's commit, and dies at what it writes
instead. Effects of tools are counted by a server that the test runs (``EFFECTS_URL``).
"""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

import ekiden.dispatcher.bootstrap
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer
from ekiden.shared.environments import for_tools
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.hooks.base import Hook
from ekiden.shared.hooks.events import BeforeTool
from ekiden.shared.hooks.replies import HookReply
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelChoice, ModelValues
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Guarded,
    Hooked,
    ModelReplied,
    Nudged,
    Record,
    Refused,
    Summarised,
    ToolFinished,
)
from ekiden.shared.relay.celery_app import make_app
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.opening import Stores
from ekiden.workers.compression import COMPRESSOR
from ekiden.workers.definitions import Definitions
from ekiden.workers.graphs.handler import GraphHandler
from ekiden.workers.leg import AgentHandler, Means
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.own_tools import OwnTools
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.registry import Registry
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.validators import Validators

POINTS = (
    "unclaimed",
    "claimed",
    "in_model",
    "after_reply",
    "in_idempotent_tool",
    "in_plain_tool",
    "after_result",
    "before_commit",
    "after_commit",
)
REFUSAL_POINTS = ("before_refusal", "after_refusal")
NUDGE_POINTS = ("before_nudge", "after_nudge")
GIVE_BACK_POINTS = ("before_give_back", "after_give_back")
ASKED_POINTS = ("before_asking", "after_asking", "before_decision", "after_decision", "claimed", "in_plain_tool")
"""Round a pause for an approval: of the worker that asks, the client that answers, the worker that goes on."""
ROUTING_POINTS = ("unclaimed", "claimed", "before_commit", "after_commit")


def die_at(point: str, job: str, leg: int) -> None:
    """Kill this process if the plan for the leg says so."""
    plan = _plan(job, leg)
    if plan.is_file() and plan.read_text() == point:
        plan.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


async def give_back(job: str, leg: int) -> None:
    """Tell this process to stop, and wait for that, if the plan for the leg says so."""
    plan = _plan(job, leg)
    if plan.is_file() and plan.read_text() in GIVE_BACK_POINTS:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()


def _plan(job: str, leg: int) -> Path:
    return Path(os.environ["KILL_PLANS"], f"{job}.{leg}")


def effect(kind: str, key: str) -> None:
    """Have an effect in the world outside: the server counts it under ``key``."""
    request = urllib.request.Request(f"{os.environ['EFFECTS_URL']}/{kind}/{key}", method="POST")
    with urllib.request.urlopen(request, timeout=60):
        pass


class Pay(BaseModel):
    """Pay an amount."""

    amount: int = Field(description="How much.")


@tool(Pay, idempotent=True)
def pay(args: Pay, context: ToolContext) -> str:
    """Pay; the server knows the key, so that paying again does nothing."""
    effect("idempotent", context.idempotency_key)
    die_at("in_idempotent_tool", context.job, context.leg)
    return f"paid {args.amount}"


@tool(Pay)
def print_receipt(args: Pay, context: ToolContext) -> str:
    """Print on paper: doing it again prints again."""
    effect("plain", context.idempotency_key)
    die_at("in_plain_tool", context.job, context.leg)
    return f"printed {args.amount}"


class Doubling(Hook):
    """Doubles what one agent pays; counts how often it is asked."""

    async def before_tool(self, event: BeforeTool) -> HookReply | None:
        if event.place.agent != "hooked":
            return None
        effect("hook", f"{event.place.job}:{event.call.id}")
        return HookReply(args={"amount": 2 * event.call.args["amount"]})


def counted(value: Any) -> None:
    """Let everything pass; counts how often it is asked of what."""
    effect("guard", f"{CURRENT.get().job}:{'answer' if isinstance(value, str) else 'arguments'}")


class KillingModels(Models):
    """The scripted model, behind a point."""

    def model(self, choice: ModelChoice, *, has_fallback: bool = False) -> ChatModel:
        return KillingModel(super().model(choice))


class KillingModel:
    """Counts a call, then may die before the answer."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        leg = CURRENT.get()
        turn = sum(message.role == "model" for message in request.messages)
        effect("snapshot" if request.agent == COMPRESSOR else "model", f"{leg.job}:{leg.number}:{turn}")
        die_at("in_model", leg.job, leg.number)
        return await self._model.reply(request, on_delta)


CURRENT: ContextVar[Leg] = ContextVar("CURRENT")


class NotingHandler(AgentHandler):
    """Lets the model double know whose call it serves."""

    async def run(self, leg: Leg) -> Any:
        CURRENT.set(leg)
        return await super().run(leg)


async def build_worker(settings: Settings, stores: Stores) -> PoolComponents:
    """A worker with the two tools, whose store dies at points."""
    registry = Registry([pay, print_receipt])
    models = KillingModels(ModelValues(model="scripted", scripts_dir=settings.scripts_dir), {})
    with_points(stores)
    tools, root = ToolRunner(registry), settings.workspace_root
    definitions = Definitions(stores.catalogs)
    handler = NotingHandler(
        definitions,
        Means(
            OwnTools(registry, root=root),
            tools,
            ModelCallers(models, Prices()),
            ToolEnvironment(root, for_tools(os.environ)),
            HookAsking([Doubling()]),
        ),
        policy=operators_policy(settings),
        validators=Validators({"counted": counted}),
    )
    return PoolComponents(GraphHandler(definitions, handler), registry.views())


async def build_dispatcher(settings: Settings, stores: Stores) -> PoolComponents:
    """A dispatcher whose store dies at points."""
    with_points(stores)
    return await ekiden.dispatcher.bootstrap.build(settings, stores)


def with_points(stores: Stores) -> None:
    """Put points round the store's writes."""
    jobs: Any = stores.jobs
    claim, append = jobs.claim, jobs.append

    async def killing_claim(wanted: Any, *args: Any, **options: Any) -> Any:
        die_at("unclaimed", wanted.job, wanted.leg)
        got = await claim(wanted, *args, **options)
        die_at("claimed", wanted.job, wanted.leg)
        return got

    async def killing_append(lease: Lease, token: str, records: list[Record], **options: Any) -> Any:
        kinds = {type(record) for record in records}
        for kind, point in _BEFORE:
            if kind in kinds:
                die_at(point, lease.job, lease.leg)
        appended = await append(lease, token, records, **options)
        for kind, point in _AFTER:
            if kind in kinds:
                die_at(point, lease.job, lease.leg)
        return appended

    jobs.claim, jobs.append = killing_claim, killing_append
    for name, what in (("transfer", "commit"), ("finish", "commit")):
        setattr(jobs, name, _round(getattr(jobs, name), what))
    suspending = jobs.suspend

    async def suspend(lease: Lease, commit_id: str, records: list[Record], *args: Any, **options: Any) -> Any:
        kinds = {type(record) for record in records}
        what = "asking" if ApprovalAsked in kinds else "waiting" if Delegated in kinds else "give_back"
        return await _round(suspending, what)(lease, commit_id, records, *args, **options)

    jobs.suspend = suspend


_BEFORE: tuple[tuple[type[Record], str], ...] = ((Refused, "before_refusal"), (Nudged, "before_nudge"))
_AFTER: tuple[tuple[type[Record], str], ...] = (
    (ModelReplied, "after_reply"),
    (ToolFinished, "after_result"),
    (Refused, "after_refusal"),
    (Nudged, "after_nudge"),
    (Hooked, "after_hook"),
    (Guarded, "after_judgement"),
    (Summarised, "after_snapshot"),
)


def _round(commit: Callable[..., Awaitable[Any]], what: str) -> Callable[..., Awaitable[Any]]:
    async def killing_commit(of: Lease | Decided, *args: Any, **options: Any) -> Any:
        job = of.job if isinstance(of, Lease) else of.id.rpartition(":")[0]
        if what == "commit":
            await give_back(job, of.leg)
        die_at(f"before_{what}", job, of.leg)
        verdict = await commit(of, *args, **options)
        die_at(f"after_{what}", job, of.leg)
        return verdict

    return killing_commit


async def answer(url: str, approval: str) -> None:
    """Approve a call, as a client that dies at points."""
    async with Client(url) as client:
        jobs: Any = client._stores.jobs
        jobs.decide = _round(jobs.decide, "decision")
        view = await client.approval(approval)
        await client.answer(approval, Answer("approved", view.digest, by="the one that dies"))


if __name__ == "__main__":
    asyncio.run(answer(*sys.argv[1:]))
elif "KILL_PLANS" in os.environ:  # a Celery app needs a server when it is made: the test only wants the names above
    worker = make_app("worker", "tests.e2e.kill_app:build_worker")
    router = make_app("dispatcher", "tests.e2e.kill_app:build_dispatcher")
