"""How full the queues are and who waits without a worker, for metrics.

Every pool looks; dashboards take the largest of what they say.
"""

import re

from ekiden.shared.relay.message import agent_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.telemetry.base import QueueGauge, telemetry

__all__ = ["report_queues"]

_PUSHED = re.compile(r'"ekiden_ms": ?(\d+)')
"""When a message was pushed, in relay time; it stands before everything that a user wrote."""


async def report_queues(stores: Stores) -> None:
    """Tell whoever listens how full the queues are and how many jobs are suspended; look only if somebody does."""
    if not telemetry().wants_queues:
        return
    telemetry().suspended(await stores.pools.suspended())
    queues = [queue for queue in await stores.pools.queues() if queue.name.startswith("ekiden.")]
    oldest = await stores.pools.oldest([queue.name for queue in queues])
    now_ms = await stores.jobs.clock.passed_ms()
    telemetry().queues(
        [
            QueueGauge(agent_of(queue.name) or "router", queue.waiting, _age_s(now_ms, oldest.get(queue.name, "")))
            for queue in queues
        ]
    )


def _age_s(now_ms: int, message: str) -> float:
    found = _PUSHED.search(message)
    return max(0, now_ms - int(found.group(1))) / 1000 if found else 0.0
