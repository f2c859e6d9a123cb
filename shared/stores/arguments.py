"""What several scripts are given alike, by the names in their heads."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.ids import session_of
from ekiden.shared.job_limits import NO_BUDGETS, UNLIMITED
from ekiden.shared.outcomes import Transfer
from ekiden.shared.records import (
    GRAPH,
    HandedOff,
    LegStarted,
    ModelCall,
    ModelReplied,
    Record,
    Routed,
    Unrouted,
    untrusted_in,
)
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.submissions import ChildSubmission, summary_of

__all__ = [
    "child_of",
    "commit_of",
    "count_of",
    "counts_behind",
    "identity_of",
    "pairs_of",
    "session_keys",
    "transfer_of",
    "variables_of",
]


def session_keys(job: str) -> dict[str, str]:
    """Return the keys that most scripts share."""
    session = session_of(job)
    return {
        "job": keys.job(job),
        "journal": keys.journal(job),
        "blobs": keys.blobs(job),
        "session": keys.session(session),
        "messages": keys.messages(session),
        "older_messages": keys.older_messages(session),
        "inbox": keys.inbox(session),
        "state": keys.state(session),
    }


def commit_of(lease: Lease, commit_id: str) -> dict[str, str | int]:
    """Return what fences a commit of a running leg, and makes it known when it is repeated."""
    return {"id": lease.job, "fence": lease.fence, "leg": lease.leg, "seq": lease.seq, "commit": commit_id}


def count_of(records: Sequence[Record]) -> dict[str, int | list[str | int]]:
    """Return what steps of a leg count for: what they use up of its root's limits, and untrusted text."""
    said = [record for record in records if isinstance(record, ModelCall)]
    return {
        "is_untrusted": int(bool(untrusted_in(records))),
        "tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in said),
        "turns": sum(isinstance(record, ModelReplied) and record.model != GRAPH for record in records),
        "micro_usd": sum(round((one.cost_usd or 0.0) * 1_000_000) for one in said),
        "used": _used_of(records),
    }


def _used_of(records: Sequence[Record]) -> list[str | int]:
    """Return what models have used, those that route, too: of each what ``account`` takes."""
    rows: dict[str, list[int]] = {}
    for record in records:
        alone = (record,) if isinstance(record, ModelCall) else ()
        asked = record.stages if isinstance(record, (Routed, Unrouted)) else alone
        for one in asked:
            usage = one.usage
            if not (usage.input_tokens or usage.output_tokens):
                continue
            row = rows.setdefault(one.model, [0] * 5)
            row[0] += 1
            row[1] += usage.input_tokens
            row[2] += usage.output_tokens
            row[3] += round((one.cost_usd or 0.0) * 1_000_000)
            row[4] += one.cost_usd is None
    used: list[str | int] = []
    for model, counts in rows.items():
        used += [model, *counts]
    return used


def variables_of(state: Mapping[str, Any]) -> list[str]:
    """Return session variables as the scripts take them: name and JSON of each; an empty text takes one away."""
    pairs = [(name, "" if value is None else json.dumps(value, ensure_ascii=False)) for name, value in state.items()]
    return [text for pair in pairs for text in pair]


def transfer_of(transfer: Transfer) -> dict[str, str | int | tuple[str, ...]]:
    """Return what a move of control says of itself, and what it is checked by."""
    context = transfer.context
    return {
        "origin": context.from_agent,
        "to": context.to_agent,
        "handoff": context.metadata.handoff_id,
        "identity": identity_of(context),
        "definition": transfer.definition,
        "depth_there": context.metadata.chain_depth,
        "max_depth": transfer.max_depth,
        "may_return": int(transfer.may_return),
        "limits": _limits_of(transfer),
        "left": transfer.left,
    }


def _limits_of(transfer: Transfer) -> tuple[str, ...]:
    """Return what a route sets, as the script takes it; no other move sets any."""
    if transfer.limits is UNLIMITED and transfer.budgets is NO_BUDGETS:
        return ()
    counted = transfer.limits.counted() | transfer.budgets.counted()
    return tuple(str(part) for limit in counted.items() for part in limit)


def identity_of(context: HandoffContext) -> str:
    """Name what a handoff says: an identical one, said again in the same job, or step of a graph, is refused."""
    said = context.model_dump_json(
        include={"from_agent", "to_agent", "reason", "context", "summary", "payload", "graphs"}
    )
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def counts_behind(records: Sequence[Record]) -> dict[str, int]:
    """Return what the scripts have counted that wrote these records, for what a job does behind them.

    How often each agent that has had control is in the chain, which handoffs were taken, what was said with them; and
    how often legs were claimed, which tells the claims of a job apart.
    """
    claims = sum(isinstance(record, LegStarted) for record in records)
    moves = [record for record in records if isinstance(record, HandedOff)]
    chain = moves[-1].context.metadata.handoff_chain if moves else ()
    counts = Counter({f"visits:{moved.context.to_agent}": chain.count(moved.context.to_agent) for moved in moves})
    taken = [moved for moved in moves if moved.kind in ("route", "handoff")]
    counts.update(f"edge:{moved.context.from_agent}\0{moved.context.to_agent}" for moved in taken)
    return {
        **counts,
        "fence": claims,
        **{f"handed:{identity_of(moved.context)}": 1 for moved in taken if moved.kind == "handoff"},
    }


def pairs_of(found: Mapping[str, int]) -> list[str | int]:
    """Return names and values in turn."""
    return [part for pair in found.items() for part in pair]


def child_of(submission: ChildSubmission, context: str, records: Sequence[str]) -> list[str | int]:
    """Return what a suspension needs to begin a child, whose context and records are as they are to be stored."""
    child, box, moved = submission.child, submission.outbox, submission.child.context
    counts: Mapping[str, int] = {f"visits:{child.agent}": 1}
    if child.behind:
        counts = counts_behind(submission.records)
    pairs = pairs_of(counts)
    return [
        child.job,
        moved.metadata.handoff_id,
        context,
        box.queue,
        box.message,
        summary_of(child.objective),
        moved.to_agent,
        round(child.timeout_s * 1000),
        moved.metadata.chain_depth,
        submission.leg,
        moved.from_agent,
        len(pairs),
        len(records),
        *pairs,
        *records,
    ]
