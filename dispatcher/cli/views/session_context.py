"""A session as programs of other makers know one: who talked, what was said, what it took, what was done last."""

from collections.abc import Sequence
from typing import Any

from ekiden.dispatcher.cli.views.gemini_files import context_of, iso
from ekiden.dispatcher.client import Client
from ekiden.shared.current_task import last_action_of
from ekiden.shared.errors import UnknownJob
from ekiden.shared.records import Entry, HandedOff
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.shared.stores.views import JobView

__all__ = ["context_fields"]


async def context_fields(client: Client, view: SessionView, said: Sequence[SessionMessage]) -> dict[str, Any]:
    """Return ``agentName, conversationHistory, metadata, startedAt, lastActiveAt`` and ``last_action``.

    ``metadata`` has the session's ``agent_chain`` (all that got control in its jobs, in order), ``handoff_count`` and
    ``total_tokens``, with what they delegated. Reads the journals of all its jobs.
    """
    jobs = await _jobs_of(client, view)
    moves = [entry.record for _, entries in jobs for entry in entries if isinstance(entry.record, HandedOff)]
    fields = context_of(view, said, view.entry or view.first_agent)
    fields["metadata"] |= {
        "agent_chain": [move.context.to_agent for move in moves],
        "handoff_count": sum(move.kind == "handoff" for move in moves),
        "total_tokens": sum(job.spent.tokens for job, _ in jobs),
    }
    return {**fields, "last_action": _last_action(jobs[-1][1] if jobs else [])}


async def _jobs_of(client: Client, view: SessionView) -> list[tuple[JobView, list[Entry]]]:
    found = []
    for number in range(1, view.jobs + 1):
        try:
            job = await client.job(f"{view.id}.{number}")
            found.append((job, await client.entries(job.id)))
        except UnknownJob:  # a number may have been drawn in vain
            continue
    return found


def _last_action(entries: Sequence[Entry]) -> dict[str, str] | None:
    """Return what was done last; None: nothing was."""
    for entry in reversed(entries):
        if action := last_action_of([entry.record]):
            kind, _, details = action.partition(": ")
            return {"type": kind, "timestamp": iso(entry.at_ms), "details": details}
    return None
