"""The Celery app that both kinds of pool are made of; they differ in who builds the handler.

Celery carries the messages and the processes; what it does not guarantee (redelivery, exactly one run) is the relay's.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import structlog
from celery import bootsteps, signals

from ekiden.shared.errors import ConfigurationError, EkidenError
from ekiden.shared.hooks.base import Hooks
from ekiden.shared.logs import configure_logs
from ekiden.shared.process_secrets import withdraw
from ekiden.shared.processes.grace_periods import DRAIN_S, LEAVE_S, TOOL_S
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.relay.admission import Admission
from ekiden.shared.relay.celery_environment import refuse_what_breaks, unused_in
from ekiden.shared.relay.consumer import AdmittingStep, PromptStep, ReconnectingConsumer
from ekiden.shared.relay.heartbeat import Heartbeat, PeriodicCall
from ekiden.shared.relay.isolated_app import EkidenApp, refuse_options
from ekiden.shared.relay.leases import Leases
from ekiden.shared.relay.message import DISPATCH_QUEUE, IDLE_QUEUE, TASK
from ekiden.shared.relay.pool import AsyncPool
from ekiden.shared.relay.pool_components import PoolComponents, PoolKind, load_bootstrap
from ekiden.shared.relay.quarantine import Quarantine
from ekiden.shared.relay.queue_selection import QueueSelection
from ekiden.shared.relay.runner import PROCESS, Runner
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.relay.watchdog import LOOK_S, Watchdog
from ekiden.shared.server import server_url
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import ms
from ekiden.shared.stores.replication import ReportReplicas
from ekiden.shared.stores.views import PoolView
from ekiden.shared.version import VERSION

__all__ = ["make_app", "spare_the_collector"]

FOLLOW_S = 1.0
"""How often a pool looks which catalog is in force."""
WRITE_S = 5.0
"""How long the consumer waits until a dead letter is kept."""
GC_THRESHOLDS = (10_000, 5, 100)
"""Objects more than there were when Python last looked for cycles; looks at the young before one at those that stayed,
which bounds how long that one takes (50 ms with 50,000 of them); and so on.
"""

T = TypeVar("T")

log = structlog.get_logger(__name__)


def make_app(kind: PoolKind, bootstrap: str) -> EkidenApp:
    """Return the app of a pool. ``bootstrap`` is ``module:function``, imported when the worker starts."""
    withdraw()  # `celery -A …` has not done it
    settings = load_settings()
    url = server_url(settings)
    app = EkidenApp(f"ekiden-{kind}", url)
    app.conf.update(_configuration(kind, settings))
    app.steps["worker"].add(_relay_step(kind, bootstrap, settings, url))
    app.steps["consumer"].update((AdmittingStep, PromptStep))

    @app.task(name=TASK, bind=True, shared=False)
    async def leg(self: Any, message: dict[str, Any]) -> str:
        """Serve one message of the relay."""
        queue = self.request.delivery_info["routing_key"]
        runner: Runner = app.relay.runner
        return await runner.run(message, queue)

    return app


def _configuration(kind: PoolKind, settings: Settings) -> dict[str, Any]:
    return {
        "worker_pool": f"{AsyncPool.__module__}:{AsyncPool.__name__}",
        "worker_consumer": f"{ReconnectingConsumer.__module__}:{ReconnectingConsumer.__name__}",
        "worker_concurrency": settings.concurrency,
        "task_default_queue": DISPATCH_QUEUE if kind == "dispatcher" else IDLE_QUEUE,
        "task_ignore_result": True,
        "task_acks_late": True,  # caps the tasks in flight; redelivery is the relay's
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_send_task_events": False,
        "worker_enable_remote_control": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "broker_channel_error_retry": True,  # else READONLY and OOM end the worker
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "ack_emulation": False,  # loses and repeats messages, see the relay's own recovery
            "priority_steps": [0],
            "queue_order_strategy": "round_robin",
            "max_connections": 200,
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
    }


class _Relay:
    """What runs beside the pool in one worker process."""

    def __init__(self, kind: PoolKind, bootstrap: str, settings: Settings, url: str, worker: Any) -> None:
        self._kind = kind
        self._bootstrap = bootstrap
        self._settings = settings
        self._worker = worker
        self._stores = open_stores(url, confirming=ReportReplicas(settings.wait_replicas), signing=settings.signing)
        configure_redaction(settings.redact, settings.secrets)
        self._hooks = Hooks()
        self._leases = Leases(settings.lease_s, self._hooks)
        pool = worker.pool
        self.admission = Admission(pool.loop, self._leases, lambda: pool.in_flight)
        self._quarantine = Quarantine(bootstrap, url)
        self._served: PoolComponents | None = None
        self._agents = QueueSelection()
        self._heartbeat = Heartbeat(url, settings, self._leases, self.describe, self._hooks)
        self._heartbeat.also(PeriodicCall(LOOK_S, Watchdog(worker, self._leases, self.admission, self._queues).look))
        if kind == "worker" and self._queues() == [IDLE_QUEUE]:  # told no agents: serve all that the catalog names
            self._heartbeat.also(PeriodicCall(FOLLOW_S, self._follow_catalog))

    async def start(self) -> None:
        """Build the handler on the legs' loop, then start the heartbeat."""
        await self._stores.ping()
        for advice in await self._stores.check(self._settings.wait_replicas):
            log.warning("server", advice=advice)
        await self._stores.jobs.clock.passed_ms()  # whose Redis user may not run scripts is told so here, and ends
        served = await load_bootstrap(self._bootstrap)(self._settings, self._stores)
        self._served = served
        self._hooks.add(*served.hooks)
        for problem in served.problems:
            log.error("plugin", problem=problem)
        if served.begin is not None:
            await served.begin()
        if served.follow is not None:
            self._heartbeat.also(PeriodicCall(FOLLOW_S, served.follow))
        if served.serve is not None:
            self._heartbeat.also(PeriodicCall(0.0, served.serve))
        self.runner = Runner(
            self._stores.jobs,
            self._leases,
            served.handler,
            cycles=self._settings.handoff_cycles,
            sessions=self._stores.sessions,
            live=self._stores.live,
            quarantine=self._quarantine,
            quarantine_from=self._settings.quarantine_from,
            verifier=MessageVerifier(self._stores.signing, self._stores.dead_letters),
            hooks=self._hooks,
        )
        await self._stores.pools.announce(self.describe())  # before anybody is told that we serve
        self._heartbeat.start()
        spare_the_collector()

    def leave(self) -> None:
        """End the idle processes of the quarantine; they tell what they have to tell."""
        if self._worker.pool.loop.is_closed():  # a cold shutdown has ended them
            return
        with contextlib.suppress(TimeoutError):  # the loop is wedged
            self._worker.pool.run(self._quarantine.close(), LEAVE_S + TOOL_S)

    def stop(self) -> None:
        """Stop beating; let hooks send what they have left."""
        self._heartbeat.stop()
        self._hooks.close()
        if self._served is not None and self._served.close is not None:
            self._served.close()

    def describe(self) -> PoolView:
        """Say who we are, for ``status`` and for those who look for a consumer."""
        root, served = self._settings.workspace_root, self._served
        host, pid, _ = PROCESS.rsplit(".", 2)  # a host's name may have dots itself
        return PoolView(
            id=PROCESS,
            kind=self._kind,
            queues=tuple(queue for queue in self._queues() if queue != IDLE_QUEUE),
            tools=served.tools if served else (),
            servers=served.servers() if served else {},
            strategies=served.strategies if served else (),
            sandbox=served.sandbox if served else "",
            problems=served.problems if served else (),
            capacity=self._worker.pool.num_processes,
            in_flight=len(self._leases),
            workspace_root=str(root) if root else None,
            version=VERSION,
            host=host,
            pid=int(pid),
            extra={
                "lag_ms": str(ms(self.admission.lag_s)),
                "busy": "yes" if self.admission.is_busy else "no",
                **(served.told() if served else {}),
            },
        )

    def bury(self, queue: str, reason: str, raw: bytes) -> None:
        """Keep what was in a queue and is no message; called by the consumer."""
        log.error("dead_letter", queue=queue, reason=reason, see="ekiden status --dead-letters")
        self._do(self._stores.dead_letters.bury(queue, reason, raw))

    def move_misplaced(self) -> list[str]:
        """Put aside what stands under the names of our queues and is no list; return which; called by the consumer."""
        queues = self._do(self._stores.dead_letters.move_misplaced(self._queues())) or []
        for queue in queues:
            log.error("queue_was_no_list", queue=queue, see="ekiden status --dead-letters")
        return queues

    def _do(self, write: Coroutine[Any, Any, T]) -> T | None:
        """Write from the consumer's thread. What cannot be kept is lost: what it was is in the log."""
        try:
            return cast(T, self._worker.pool.run(write, WRITE_S))
        except (EkidenError, TimeoutError) as error:
            log.warning("dead_letter_lost", error=str(error))
            return None

    def _queues(self) -> list[str]:
        return sorted(self._worker.app.amqp.queues.consume_from)

    async def _follow_catalog(self, stores: Stores) -> None:
        """Consume the queue of every agent that there is, also of those that come later or have gone since."""
        queues = await self._agents.queues(stores, self._queues())
        consumer = self._worker.consumer
        if consumer is None or consumer.task_consumer is None:
            return
        for queue in queues:
            consumer.call_soon(consumer.add_task_queue, queue)


def spare_the_collector() -> None:
    """Let Python's collector of cycles look at little, and seldom.

    By itself it looks at the young every 700 objects, and now and then at all that was imported, which stays: a hundred
    thousand objects, for a tenth of a second in which the event loop stands still. A leg leaves hardly a cycle behind.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _relay_step(kind: PoolKind, bootstrap: str, settings: Settings, url: str) -> type[bootsteps.StartStopStep]:
    class RelayStep(bootsteps.StartStopStep):
        """Starts and stops the relay with the worker."""

        requires = ("celery.worker.components:Pool",)

        def start(self, worker: Any) -> None:
            """Build the relay on the pool's loop; a failure ends the worker with one line."""
            try:
                relay = worker.app.relay = _Relay(kind, bootstrap, settings, url, worker)
                worker.pool.run(relay.start())
            except EkidenError as error:
                worker.app.ekiden_error = error
                raise SystemExit(f"ekiden {kind}: {error}") from error

        def stop(self, worker: Any) -> None:
            """Stop the relay once the pool has drained: until then the leases must be renewed."""
            worker.pool.drain(DRAIN_S if settings.drain_s is None else settings.drain_s)
            worker.app.relay.leave()
            worker.app.relay.stop()

        def terminate(self, worker: Any) -> None:
            """Stop the relay once the running legs have given themselves back."""
            worker.pool.cancel()
            worker.app.relay.stop()

    return RelayStep


@signals.worker_init.connect
def _prepare_worker(sender: Any, **_: Any) -> None:
    """Refuse what cannot work or would do nothing, and leave out the workers' talk among themselves.

    Mingle alone costs a second at every start; the relay needs none of them.
    """
    if not isinstance(sender.app, EkidenApp):
        return
    try:
        refuse_what_breaks(os.environ)
        refuse_options(sender.pool_cls)
    except ConfigurationError as error:
        raise SystemExit(f"ekiden: {error}") from error
    if unused := unused_in(os.environ):
        log.warning("celery_variables_not_used", variables=unused)
    sender.options.update(without_mingle=True, without_gossip=True, without_heartbeat=True)


@signals.setup_logging.connect
def _setup_logging(loglevel: Any = None, **_: Any) -> None:
    """Take Celery's place in setting up logs."""
    configure_logs(loglevel or "WARNING", sys.stdout)
