"""The baselines of ``jobs``: chains of stock Celery tasks, as Celery comes and as we tune it."""

import os
from typing import Any

from celery import Celery

from ekiden.shared.relay.celery_app import _configuration
from ekiden.shared.settings.model import load_settings
from tests.integration.celery_worker import kombu_url

ENDS = "bare.end"
"""The list in which a chain that keeps no results tells its end: the cheapest news that a sender can wait for."""
_OURS_ALONE = ("worker_pool", "worker_consumer", "worker_concurrency", "task_default_queue")


def bare_app(url: str) -> Celery:
    """Return an app as Celery comes, with results in the same server: how a sender learns of an end."""
    made = Celery("bare", broker=url, backend=url, set_as_current=False)
    _add_hop(made)
    return made


def tuned_app(url: str) -> Celery:
    """Return an app with what we set of Celery's, but for what is our own code, and for the results."""
    made = bare_app(url)
    ours = _configuration("worker", load_settings())
    made.conf.update({name: value for name, value in ours.items() if name not in _OURS_ALONE})
    made.conf.task_ignore_result = False
    return made


def deaf_app(url: str) -> Celery:
    """Return the tuned app without results."""
    made = tuned_app(url)
    made.conf.task_ignore_result = True
    return made


def _add_hop(made: Celery) -> None:
    @made.task(name="hop", bind=True)
    def hop(self: Any, left: int, last: str = "", queue: str = "bare") -> None:
        """Send the next task until none is left; the last one has the id ``last``, or tells the end."""
        if left:
            self.app.send_task("hop", [left - 1, last, queue], queue=queue, task_id=None if left > 1 else last or None)
        elif not last:
            with self.app.pool.acquire(block=True) as connection:
                connection.default_channel.client.lpush(ENDS, "")


_url = kombu_url(os.environ.get("EKIDEN_REDIS_URL", "redis://localhost"))
stock, tuned, deaf = bare_app(_url), tuned_app(_url), deaf_app(_url)
