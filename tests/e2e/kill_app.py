"""Pools that kill themselves at a chosen point: ``celery -A tests.e2e.kill_app:worker worker``.

A file in ``KILL_PLANS``, named ``<job>.<leg>`` and holding a point, says where; it is removed just before, so that the
next process goes on. Effects of tools are counted by a server that the test runs (``EFFECTS_URL``).
"""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

import ekiden.dispatcher.bootstrap
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.models import ModelChoice, Models, ModelValues
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.records import Decided, ModelReplied, Record, ToolFinished
from ekiden.shared.relay.celery_app import make_app
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings import Settings
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.opening import Stores
from ekiden.workers.leg import AgentHandler, Definitions
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.registry import Registry
from ekiden.workers.tools.tool_runner import ToolRunner

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
ASKED_POINTS = ("before_asking", "after_asking", "before_decision", "after_decision", "claimed", "in_plain_tool")
"""Round a pause for an approval: of the worker that asks, the client that answers, the worker that goes on."""
ROUTING_POINTS = ("unclaimed", "claimed", "before_commit", "after_commit")


def die_at(point: str, job: str, leg: int) -> None:
    """Kill this process if the plan for the leg says so."""
    plan = Path(os.environ["KILL_PLANS"], f"{job}.{leg}")
    if plan.is_file() and plan.read_text() == point:
        plan.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def effect(kind: str, key: str) -> None:
    """Have an effect in the world outside: the server counts it under ``key``."""
    request = urllib.request.Request(f"{os.environ['EFFECTS_URL']}/{kind}/{key}", method="POST")
    with urllib.request.urlopen(request, timeout=10):
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


class KillingModels(Models):
    """The scripted model, behind a point."""

    def model(self, choice: ModelChoice) -> ChatModel:
        return KillingModel(super().model(choice))


class KillingModel:
    """Counts a call, then may die before the answer."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        leg = CURRENT[request.agent]
        turn = sum(message.role == "model" for message in request.messages)
        effect("model", f"{leg.job}:{leg.number}:{turn}")
        die_at("in_model", leg.job, leg.number)
        return await self._model.reply(request, on_delta)


CURRENT: dict[str, Leg] = {}


class NotingHandler(AgentHandler):
    """Lets the model double know whose call it serves: the tests run one job at a time."""

    async def run(self, leg: Leg) -> Any:
        CURRENT[leg.agent] = leg
        return await super().run(leg)


async def build_worker(settings: Settings, stores: Stores) -> PoolComponents:
    """A worker with the two tools, whose store dies at points."""
    registry = Registry([pay, print_receipt])
    models = KillingModels(ModelValues(model="scripted", scripts_dir=settings.scripts_dir), {})
    with_points(stores)
    tools, root = ToolRunner(registry), settings.workspace_root
    handler = NotingHandler(
        Definitions(stores.catalogs),
        registry,
        tools,
        models,
        Prices(),
        workspace_root=root,
        env=for_tools(os.environ),
        policy=operators_policy(settings),
    )
    return PoolComponents(handler, registry.views())


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
        seq = await append(lease, token, records, **options)
        for kind, point in ((ModelReplied, "after_reply"), (ToolFinished, "after_result")):
            if any(isinstance(record, kind) for record in records):
                die_at(point, lease.job, lease.leg)
        return seq

    jobs.claim, jobs.append = killing_claim, killing_append
    for name, point in (("transfer", "commit"), ("finish", "commit"), ("suspend", "asking")):
        setattr(jobs, name, _round(getattr(jobs, name), point))


def _round(commit: Callable[..., Awaitable[Any]], point: str) -> Callable[..., Awaitable[Any]]:
    async def killing_commit(of: Lease | Decided, *args: Any, **options: Any) -> Any:
        job = of.job if isinstance(of, Lease) else of.id.rpartition(":")[0]
        die_at(f"before_{point}", job, of.leg)
        verdict = await commit(of, *args, **options)
        die_at(f"after_{point}", job, of.leg)
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
