"""How full the queues are and who waits without a worker, for metrics.

Every pool looks; dashboards take the largest of what they say.
"""

import re
import time

from shared.relay.message import agent_of
from shared.stores.opening import Stores
from shared.telemetry.base import QueueGauge, telemetry

__all__ = ["tell_queues"]

_PUSHED = re.compile(r'"ekiden_ms": ?(\d+)')
"""When a message was pushed, by the server's clock; it stands before everything that a user wrote."""


async def tell_queues(stores: Stores) -> None:
    """Tell whoever listens how full the queues are and how many jobs are suspended; look only if somebody does."""
    if not telemetry().wants_queues:
        return
    telemetry().suspended(await stores.pools.suspended())
    queues = await stores.pools.queues()
    oldest = await stores.pools.oldest([queue.name for queue in queues])
    telemetry().queues(
        [
            QueueGauge(agent_of(queue.name) or "router", queue.waiting, _age_s(oldest.get(queue.name, "")))
            for queue in queues
            if queue.name.startswith("ekiden.")
        ]
    )


def _age_s(message: str) -> float:
    found = _PUSHED.search(message)
    return max(0.0, time.time() - int(found.group(1)) / 1000) if found else 0.0
