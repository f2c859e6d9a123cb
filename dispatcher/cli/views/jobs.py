"""Jobs as programs and people read them."""

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from ekiden.dispatcher.cli.views.call_text import call_text
from ekiden.dispatcher.journal.actors import Actor, Actors
from ekiden.dispatcher.journal.call_states import CallView
from ekiden.shared.ids import parent_of
from ekiden.shared.records import Forked, Guarded, Record, Summarised
from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.stores.views import JobView
from ekiden.shared.todos import listed, todos_in

__all__ = ["fields_of", "forked_json", "local_time", "rows_of", "work_json", "work_rows"]


def fields_of(job: JobView) -> dict[str, object]:
    """Return a job as programs read it."""
    fields = dataclasses.asdict(job)
    limits = {name: {"spent": used.spent, "most": used.most} for name, used in job.limits.items()}
    return {**fields, "spent": fields["spent"]._asdict(), "limits": limits, "parent": parent_of(job.id)}


def rows_of(
    job: JobView, children: Iterable[JobView], calls: Iterable[CallView], actors: Actors
) -> list[tuple[str, object]]:
    """Return a job as people read it: each field that says something, each child, each call of its turn, by name.

    ``actors``: those of its journal.
    """
    fields = {name: value for name, value in fields_of(job).items() if value not in (None, "", False)}
    if actors.of(job.leg).nodes:
        fields["agent"] = str(actors.of(job.leg))
    fields["spent"] = f"{job.spent.tokens} tokens, ${job.spent.micro_usd / 1e6:.4f}" if any(job.spent) else ""
    fields["limits"] = ", ".join(f"{one.limit} {one.spent:,.10g} of {one.most:,.10g}" for one in job.limits.values())
    for name, value in fields.items():
        if isinstance(value, int) and name.endswith("_ms"):
            fields[name] = local_time(value)
    rows: list[tuple[str, object]] = [
        (name.removesuffix("_ms").replace("_", " "), value) for name, value in fields.items() if value
    ]
    rows += [("child", _child(child, actors.below.get(child.id, Actor(child.agent)))) for child in children]
    rows += [("call", _call(one)) for one in calls]
    return rows


def _child(child: JobView, actor: Actor) -> str:
    return f"{child.id} {actor} {actor.ended(child.status)}"


def _call(one: CallView) -> str:
    said = call_text("", one.call.args, 0, is_whole=True).strip()
    with_all = f", called with {said}" if said else ""
    return f"{one.call.name} ({one.call.id}): {one.state.replace('_', ' ')}{with_all}"


def work_rows(records: Sequence[Record]) -> list[tuple[str, object]]:
    """Return what the journal tells people: its origin, the plan, what was compressed, what passed no guardrail."""
    forks = [("forked from", f"job {one.job} at {one.seq}") for one in records if isinstance(one, Forked)]
    plan = [("plan", line) for line in listed(todos_in(reversed(records))).splitlines()]
    times = [(one, f"{one.tokens_before:,} to {one.tokens_after:,} tokens") for one in _compressions(records)]
    compressed = [("compressed", f"{text} (no snapshot: {one.why})" if one.why else text) for one, text in times]
    return [*forks[-1:], *plan, *compressed, *(("guardrail", _violation(one)) for one in _violations(records))]


def work_json(records: Sequence[Record]) -> dict[str, object]:
    """Return the same for programs."""
    fields = {"leg", "why", "tokens_before", "tokens_after", "model", "usage", "cost_usd"}
    forks = [one for one in records if isinstance(one, Forked)]
    return {
        "forked": forked_json(forks[-1] if forks else None),
        "todos": [todo.model_dump() for todo in todos_in(reversed(records))],
        "compressions": [one.model_dump(mode="json", include=fields) for one in _compressions(records)],
        "guardrails": [redact_all(one.model_dump(mode="json", include=_OF_VIOLATION)) for one in _violations(records)],
    }


def forked_json(forked: Forked | None) -> dict[str, object] | None:
    """Return where a job was forked from, for programs; None: it began by itself."""
    return None if forked is None else forked.model_dump(exclude={"type", "leg", "traceparent"})


def _violation(said: Guarded) -> str:
    return redact(f"{said.rail} ({said.where}, {said.policy}) {said.status}: {'; '.join(said.errors)}")


_OF_VIOLATION = {"leg", "at", "rail", "policy", "status", "errors", "call_id"}


def _violations(records: Sequence[Record]) -> list[Guarded]:
    return [one for one in records if isinstance(one, Guarded) and one.status != "passed"]


def _compressions(records: Sequence[Record]) -> list[Summarised]:
    return [one for one in records if isinstance(one, Summarised) and one.place is not None]


def local_time(at_ms: int) -> str:
    """Return a server's time for people."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
