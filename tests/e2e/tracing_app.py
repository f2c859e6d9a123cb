"""Pools for the tests of tracing: a chain of five, with a retry, a death and a pause on its way.

``celery -A tests.e2e.tracing_app:worker worker``. What goes wrong does so once for each job: a file in ``MARKS`` says
that it has.
"""

import os
import re
import signal
import time
from pathlib import Path

from pydantic import BaseModel, Field

import ekiden.dispatcher.bootstrap
from ekiden.shared.composition import hooks_for
from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import ChatModel, Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelChoice, ModelValues
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.policy.policies import operators_policy
from ekiden.shared.prices import Prices
from ekiden.shared.relay.celery_app import make_app
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers.definitions import Definitions
from ekiden.workers.leg import AgentHandler, Means
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.own_tools import OwnTools
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.registry import Registry
from ekiden.workers.tools.tool_runner import ToolRunner

AGENTS = ("first", "second", "third", "fourth", "fifth")


class Look(BaseModel):
    """Look at something."""

    what: str = Field(description="What.")


@tool(Look, read_only=True)
def look(args: Look, context: ToolContext) -> str:
    """Look."""
    return f"looked at {args.what}"


class Nothing(BaseModel):
    """Takes nothing."""


@tool(Nothing, idempotent=True)
def die_once(args: Nothing, context: ToolContext) -> str:
    """End this process, the first time."""
    if is_first(context.job, "died"):
        time.sleep(0.5)  # what came before is with the collector then, and points to what never comes
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


class Leak(BaseModel):
    """Say something and fail."""

    said: str


@tool(Leak)
def leak(args: Leak, context: ToolContext) -> str:
    """Fail with a text that holds what it was given, and a secret of the environment."""
    raise RuntimeError(f"cannot use {args.said} with {os.environ.get('PLANTED_TOKEN', 'nothing')}")


def is_first(job: str, what: str) -> bool:
    """Tell whether this happens for the first time in the job."""
    try:
        Path(os.environ["MARKS"], f"{job}.{what}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class FlakyModels(Models):
    """The scripted model, which fails at two places of the chain."""

    def model(self, choice: ModelChoice, *, has_fallback: bool = False) -> ChatModel:
        return RetryingModel(FlakyModel(super().model(choice)), attempts=2, sleep=_at_once)


async def _at_once(_: float) -> None:
    pass


class FlakyModel:
    """Breaks off once in the third agent, is away twice (all attempts of a call) in the fourth."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        found = re.search(r"[a-z2-7]{16}\.1", request.messages[0].text)
        assert found is not None, "the tests put the job's id into its prompt"
        job = found.group()
        if request.agent == "third" and is_first(job, "broke off"):
            if on_delta is not None:
                on_delta(Delta("half an ans"))
            raise ModelUnavailable("the connection broke", 0.0)
        if request.agent == "fourth" and (is_first(job, "away") or is_first(job, "still away")):
            raise ModelUnavailable("overloaded", 0.2)
        return await self._model.reply(request, on_delta)


async def build_worker(settings: Settings, stores: Stores) -> PoolComponents:
    """A worker with the tools above."""
    registry = Registry([look, die_once, leak])
    models = FlakyModels(ModelValues(model="scripted", scripts_dir=settings.scripts_dir), {})
    tools = ToolRunner(registry)
    handler = AgentHandler(
        Definitions(stores.catalogs),
        Means(OwnTools(registry, root=None), tools, ModelCallers(models, Prices()), ToolEnvironment(None, {})),
        policy=operators_policy(settings),
    )
    return PoolComponents(handler, registry.views(), hooks=hooks_for("ekiden-worker", settings, is_host=True))


async def build_dispatcher(settings: Settings, stores: Stores) -> PoolComponents:
    """The dispatcher as it is."""
    return await ekiden.dispatcher.bootstrap.build(settings, stores)


if "MARKS" in os.environ:  # a Celery app needs a server when it is made: the test only wants the names above
    worker = make_app("worker", "tests.e2e.tracing_app:build_worker")
    router = make_app("dispatcher", "tests.e2e.tracing_app:build_dispatcher")
