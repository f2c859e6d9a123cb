"""Pools for tests of durability: tools with effects that a server counts, a tool that kills, and faults on purpose.

``celery -A tests.integration.durable_app:worker worker``. ``EFFECTS_URL`` is where effects are counted. Faults:
``PARDON`` names a file (while it is missing, the tool ``poison`` kills its process), ``DEAFEN`` a file whose creation
makes the consumer hear nothing, ``AS_VERSION`` the format version that this program claims to be of, ``STUMBLE_S`` how
long each leg holds up the loop before it runs, ``MUTATION`` a safety that is taken out, to show that tests would notice
(``fence``, ``journal``, or ``rewind``: what tells two owners apart on a server that went back).
"""

import asyncio
import os
import signal
import threading
import time
import urllib.request
from contextvars import ContextVar
from functools import reduce
from pathlib import Path
from typing import Any

from celery import signals
from pydantic import BaseModel, Field

import ekiden.dispatcher.bootstrap
import ekiden.shared.relay.heartbeat
import ekiden.shared.relay.watchdog
import ekiden.shared.stores.jobs
import ekiden.shared.stores.scripts
from ekiden.shared.environments import for_tools
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelChoice, ModelValues
from ekiden.shared.outcomes import Suspended
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.processes.children import PARENT_FD, watch_parent
from ekiden.shared.records import LegSuspended, ModelReplied
from ekiden.shared.relay.celery_app import make_app
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers.definitions import Definitions
from ekiden.workers.leg import AgentHandler, Means
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.own_tools import OwnTools
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.registry import Registry, builtin_registry
from ekiden.workers.tools.tool_runner import ToolRunner

LEG: ContextVar[Leg] = ContextVar("leg")


def effect(kind: str, key: str) -> None:
    """Have an effect in the world outside: the server counts it under ``key``."""
    if url := os.environ.get("EFFECTS_URL"):
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/{kind}/{os.getpid()}/{key}", method="POST"), timeout=60
        ):
            pass


class Pay(BaseModel):
    """Pay an amount."""

    amount: int = Field(description="How much.")


@tool(Pay, idempotent=True)
def pay(args: Pay, context: ToolContext) -> str:
    """Pay; the server knows the key, so that paying again does nothing."""
    effect("idempotent", context.idempotency_key)
    return f"paid {args.amount}"


@tool(Pay)
def print_receipt(args: Pay, context: ToolContext) -> str:
    """Print on paper: doing it again prints again."""
    effect("plain", context.idempotency_key)
    return f"printed {args.amount}"


class Poison(BaseModel):
    """End the process that runs this."""


@tool(Poison, idempotent=True)
def poison(args: Poison, context: ToolContext) -> str:
    """Take the worker along, as a fault in a library would; harmless once pardoned."""
    if not Path(os.environ["PARDON"]).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "harmless now"


class CountingModels(Models):
    """The scripted model, counted."""

    def model(self, choice: ModelChoice, *, has_fallback: bool = False) -> ChatModel:
        return CountingModel(super().model(choice))


class CountingModel:
    """Tells the world outside of every call; its key is the place in the job that it is made for."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        leg = LEG.get()
        replies = [one for one in leg.entries if one.record.leg == leg.number and isinstance(one.record, ModelReplied)]
        turn = 1 + len(replies)
        await asyncio.to_thread(effect, "model", f"{leg.job}:{leg.number}:{turn}")
        return await self._model.reply(request, on_delta)


class NotingHandler(AgentHandler):
    """Lets the model know whose call it serves; stumbles; has the agent ``sleeper`` sleep before it begins."""

    async def run(self, leg: Leg) -> Any:
        LEG.set(leg)
        time.sleep(float(os.environ.get("STUMBLE_S", "0")))  # noqa: ASYNC251  # on the loop: so it is meant
        if leg.agent == "sleeper" and not any(isinstance(entry.record, LegSuspended) for entry in leg.entries):
            return Suspended("retry", float(os.environ["SLEEP_S"]), "asleep")
        return await super().run(leg)


async def build_worker(settings: Settings, stores: Stores) -> PoolComponents:
    """A worker with the tools above and the built-in ones."""
    builtin = builtin_registry(workspace=settings.workspace_root is not None)
    registry = Registry([pay, print_receipt, poison, *builtin.offered_to(lambda _: True)])
    models = CountingModels(ModelValues(model="scripted", scripts_dir=settings.scripts_dir), {})
    tools, root = ToolRunner(registry), settings.workspace_root
    handler = NotingHandler(
        Definitions(stores.catalogs),
        Means(
            OwnTools(registry, root=root),
            tools,
            ModelCallers(models, Prices()),
            ToolEnvironment(root, for_tools(os.environ)),
        ),
        policy=operators_policy(settings),
    )
    return PoolComponents(handler, registry.views())


async def build_dispatcher(settings: Settings, stores: Stores) -> PoolComponents:
    """The dispatcher as it is."""
    return await ekiden.dispatcher.bootstrap.build(settings, stores)


POSITION = ("append", "if job.seq ~= seq then", "if false then")
CHECKS = {
    "fence": [
        (
            "append",
            "elseif job.status ~= 'running' or fence_of(job.fence, job.owner) ~= fence or job.leg ~= leg then",
            "elseif false then",
        ),
        POSITION,
    ],
    "rewind": [
        ("append", "return (count or '') .. '.' .. (owner or '')", "return (count or '') .. '.'"),
        ("renew", "and tonumber(h[5]) >= seq", ""),
        POSITION,
    ],
}
"""What the scripts lose with a safety: one that has the text, the text, and what stands there instead."""


def take_out(safety: str) -> None:
    """Switch one safety off in this process."""
    if safety == "journal":
        setattr(Leg, "records", property(lambda _: []))  # noqa: B010
        return
    source_of, checks = ekiden.shared.stores.scripts.source_of, CHECKS[safety]
    for script, check, _ in checks:
        assert check in source_of(script), check

    def without(name: str) -> str:
        return reduce(lambda text, one: text.replace(one[1], one[2]), checks, source_of(name))

    setattr(ekiden.shared.stores.scripts, "source_of", without)  # noqa: B010
    if safety == "fence":
        setattr(Leases, "_stop", lambda *_: None)  # noqa: B010  # what makes it seldom that the fence is needed


def wait_to_deafen(consumer: Any) -> None:
    """Once the file is there, make the consumer ask for no more messages, and stay otherwise as it is."""
    order = Path(os.environ["DEAFEN"])
    while not order.exists():  # in a thread of its own
        time.sleep(0.02)
    consumer.call_soon(consumer.task_consumer.cancel)
    order.unlink()


@signals.worker_ready.connect(weak=False)
def _ready(sender: Any, **_: Any) -> None:
    if "DEAFEN" in os.environ:
        threading.Thread(target=wait_to_deafen, args=(sender,), daemon=True).start()


if PARENT_FD in os.environ:
    watch_parent()  # it brings the rest of the environment, too
for name, module in (("DEAF_S", ekiden.shared.relay.watchdog), ("CALM_S", ekiden.shared.relay.heartbeat)):
    if name in os.environ:  # so that tests need not wait as long as people do
        setattr(module, name, float(os.environ[name]))
if "AS_VERSION" in os.environ:
    setattr(ekiden.shared.stores.jobs, "VERSION", int(os.environ["AS_VERSION"]))  # noqa: B010
if "MUTATION" in os.environ:
    take_out(os.environ["MUTATION"])
if "EKIDEN_REDIS_URL" in os.environ:  # a Celery app needs a server when it is made
    worker = make_app("worker", "tests.integration.durable_app:build_worker")
    router = make_app("dispatcher", "tests.integration.durable_app:build_dispatcher")
