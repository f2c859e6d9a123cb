"""The baseline of ``hop``: a stock Celery task that sends the next one."""

import os

from celery import Celery

from tests.integration.celery_worker import kombu_url

app = Celery("bare", broker=kombu_url(os.environ.get("EKIDEN_REDIS_URL", "redis://localhost")))
app.conf.task_ignore_result = True


@app.task(name="hop")
def hop(left: int) -> None:
    """Send the next task, until none is left."""
    app.send_task("hop" if left else "end", [left - 1] if left else [], queue="bare" if left else "bare.end")
