"""How full the queues are and who waits without a worker, for metrics.

Every pool looks; dashboards take the largest of what they say.
"""

import re

from ekiden.shared.hooks.base import Hook, QueueGauge
from ekiden.shared.relay.message import agent_of
from ekiden.shared.stores.opening import Stores

__all__ = ["report_queues"]

_PUSHED = re.compile(r'"ekiden_ms": ?(\d+)')
"""When a message was pushed, in relay time; it stands before everything that a user wrote."""


async def report_queues(stores: Stores, hooks: Hook) -> None:
    """Tell the hooks how full the queues are and how many jobs are suspended; look only for one that wants to know."""
    if hooks.hears("suspensions_seen"):
        hooks.suspensions_seen(await stores.pools.suspended())
    if hooks.hears("circuits_seen"):
        hooks.circuits_seen([one.model for one in await stores.circuits.all() if one.open_s])
    if not hooks.hears("queues_seen"):
        return
    queues = [queue for queue in await stores.pools.queues() if queue.name.startswith("ekiden.")]
    oldest = await stores.pools.oldest([queue.name for queue in queues])
    now_ms = await stores.jobs.clock.passed_ms()
    hooks.queues_seen(
        [
            QueueGauge(agent_of(queue.name) or "router", queue.waiting, _age_s(now_ms, oldest.get(queue.name, "")))
            for queue in queues
        ]
    )


def _age_s(now_ms: int, message: str) -> float:
    found = _PUSHED.search(message)
    return max(0, now_ms - int(found.group(1))) / 1000 if found else 0.0
