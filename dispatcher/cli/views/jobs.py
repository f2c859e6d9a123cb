"""Jobs as programs and people read them."""

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from ekiden.dispatcher.journal.call_states import CallView
from ekiden.shared.ids import parent_of
from ekiden.shared.stores.views import JobView

__all__ = ["fields_of", "local_time", "rows_of"]


def fields_of(job: JobView) -> dict[str, object]:
    """Return a job as programs read it."""
    fields = dataclasses.asdict(job)
    return {**fields, "spent": fields["spent"]._asdict(), "parent": parent_of(job.id)}


def rows_of(job: JobView, children: Iterable[JobView], calls: Iterable[CallView] = ()) -> list[tuple[str, object]]:
    """Return a job as people read it: each field that says something, each child, each call of its turn, by name."""
    fields = {name: value for name, value in fields_of(job).items() if value not in (None, "", False)}
    fields["spent"] = f"{job.spent.tokens} tokens, ${job.spent.micro_usd / 1e6:.4f}" if any(job.spent) else ""
    for name, value in fields.items():
        if isinstance(value, int) and name.endswith("_ms"):
            fields[name] = local_time(value)
    rows: list[tuple[str, object]] = [
        (name.removesuffix("_ms").replace("_", " "), value) for name, value in fields.items() if value
    ]
    rows += [("child", f"{child.id} {child.agent} {child.status}") for child in children]
    rows += [("call", f"{one.call.name} ({one.call.id}): {one.state.replace('_', ' ')}") for one in calls]
    return rows


def local_time(at_ms: int) -> str:
    """Return a server's time for people."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
