"""What the journal of a job teaches: whose its request was.

A request belongs to the first agent that worked on it. One that called no tool and handed the request on has said that
it is not its own; one that worked and then handed on has not said whose it was. The user's own word counts for more:
the same request again, with the agent named. What did not end well, and what somebody else may have had a say in,
teaches nothing.
"""

import re
from collections.abc import Sequence

from ekiden.dispatcher.routing.followup import SESSION
from ekiden.shared.lessons import Evidence, Lesson, normalised
from ekiden.shared.records import (
    Delegated,
    Ended,
    Entry,
    Forked,
    HandedOff,
    JobRequested,
    Record,
    Routed,
    ToolStarted,
    Unrouted,
    untrusted_in,
)
from ekiden.shared.redaction import redact

__all__ = ["is_teachable", "lesson_in"]

_LONGEST = 400
"""Characters of a request beyond which it is no example of anything, but a text with one."""
_SURE = 80.0
"""Confidence of a router that has nothing to learn."""
_FALLBACK = "fallback"
_DISABLED = "none"
"""The stage of a request that no router has looked at."""
_WORDS = re.compile(r"[^\W\d_]{2,}")
_IDEOGRAPHS = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]")


def lesson_in(
    job: str, entries: Sequence[Entry], before: Sequence[Entry] | None = None, *, user: str = ""
) -> Lesson | None:
    """Return what ``job`` teaches; None: nothing.

    Args:
        job: The job's id.
        entries: Its whole journal.
        before: For a job whose agent was named: the journal of the same user's last request in the same words.
        user: Whose request it was, where that is known otherwise than by the journal.
    """
    records = [entry.record for entry in entries]
    request = records[0] if records else None
    if not isinstance(request, JobRequested) or not _ended_well(request, records):
        return None
    found = _named(request, records, before) if request.agent is not None else _routed(records)
    if found is None or not is_teachable(request.prompt):
        return None
    agent, evidence = found
    text = " ".join(request.prompt.split())
    return Lesson(text=text, agent=agent, evidence=evidence, user=user or request.by, job=job, at_ms=entries[0].at_ms)


def is_teachable(text: str) -> bool:
    """Tell whether a request is an example of others: it says something, briefly, and holds no secret."""
    words, ideographs = len(_WORDS.findall(text)), len(_IDEOGRAPHS.findall(text))
    return len(text) <= _LONGEST and (words > 1 or ideographs > 3) and redact(text) == text


def _ended_well(request: JobRequested, records: Sequence[Record]) -> bool:
    """Tell whether a person's request was answered, and no text of unknown authors had a say in it."""
    end = records[-1]
    is_answered = isinstance(end, Ended) and (end.status, end.reason) == ("done", "GOAL") and not _is_forked(records)
    return is_answered and request.inputs is None and not request.untrusted and not untrusted_in(records)


def _is_forked(records: Sequence[Record]) -> bool:
    """Tell whether another job has taught what there is to learn: its route is this one's, too."""
    return any(isinstance(record, Forked) for record in records)


def _named(
    request: JobRequested, records: Sequence[Record], before: Sequence[Entry] | None
) -> tuple[str, Evidence] | None:
    """Return the agent that the user named in place of the router's choice."""
    earlier = [entry.record for entry in before or ()]
    if not earlier or not _is_same(request, earlier[0]) or _workers(records) != [request.agent]:
        return None
    agent = str(request.agent)
    choice = next((record for record in earlier if isinstance(record, Routed | Unrouted)), None)
    if choice is None or not _is_routers(choice):
        return None
    if isinstance(choice, Unrouted):
        return agent, "chosen"
    return (agent, "named") if choice.agent != agent else None


def _is_same(request: JobRequested, earlier: Record) -> bool:
    if not isinstance(earlier, JobRequested) or earlier.agent is not None:
        return False
    return normalised(request.prompt) == normalised(earlier.prompt)


def _routed(records: Sequence[Record]) -> tuple[str, Evidence] | None:
    """Return the agent that a routed request belonged to."""
    route = next((record for record in records if isinstance(record, Routed)), None)
    if route is None or route.stage == SESSION or not _is_routers(route):  # not by the request itself
        return None
    workers = _workers(records)
    if len(workers) > 1:
        return workers[-1], "passed_on"
    is_open = route.stage != _FALLBACK and route.confidence < _SURE
    is_alone = sum(isinstance(record, HandedOff) for record in records) == 1
    return (route.agent, "answered") if workers and is_open and is_alone else None


def _is_routers(choice: Routed | Unrouted) -> bool:
    """Tell whether a router has chosen so, and not somebody who was not there for the request then."""
    agent = choice.agent if isinstance(choice, Routed) else None
    return all(stage.agent == agent if stage.decided else stage.stage != _DISABLED for stage in choice.stages)


def _workers(records: Sequence[Record]) -> list[str]:
    """Return the agents that handed the request on untouched, and the first that worked on it; empty: nobody knows."""
    moves = [record for record in records if isinstance(record, HandedOff)]
    busy = {record.leg for record in records if isinstance(record, ToolStarted | Delegated)}
    agents = [move.context.to_agent for move in moves[:1]]
    for move in moves[1:]:
        if move.kind != "handoff" or move.call_id is None or move.leg in busy:
            break
        agents.append(move.context.to_agent)
    return agents if len(set(agents)) == len(agents) else []
