"""What several scripts are given alike, by the names in their heads."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.shared.handoff import HandoffContext
from ekiden.shared.ids import session_of
from ekiden.shared.outcomes import Budget, Transfer
from ekiden.shared.records import LoopJudged, ModelReplied, Record, Summarised, untrusted_in
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Lease

__all__ = ["commit_of", "count_of", "session_keys", "transfer_of", "variables_of"]


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


def count_of(records: Sequence[Record]) -> dict[str, int]:
    """Return what steps of a leg count for: tokens and micro-dollars of its root's budget, and untrusted text."""
    said = [record for record in records if isinstance(record, ModelReplied | Summarised | LoopJudged)]
    return {
        "is_untrusted": int(bool(untrusted_in(records))),
        "tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in said),
        "micro_usd": sum(round((one.cost_usd or 0.0) * 1_000_000) for one in said),
    }


def variables_of(state: Mapping[str, Any]) -> list[str]:
    """Return session variables as the scripts take them: name and JSON of each; an empty text takes one away."""
    pairs = [(name, "" if value is None else json.dumps(value, ensure_ascii=False)) for name, value in state.items()]
    return [text for pair in pairs for text in pair]


def transfer_of(transfer: Transfer) -> dict[str, str | int | tuple[str, ...]]:
    """Return what a move of control says of itself, and what it is checked by."""
    context, budget = transfer.context, transfer.budget or Budget()
    return {
        "origin": context.from_agent,
        "to": context.to_agent,
        "handoff": context.metadata.handoff_id,
        "identity": _identity_of(context),
        "definition": transfer.definition,
        "max_depth": transfer.max_depth,
        "may_return": int(transfer.may_return),
        "max_tokens": "" if budget.tokens is None else budget.tokens,
        "max_micro": "" if budget.micro_usd is None else budget.micro_usd,
        "left": transfer.left,
    }


def _identity_of(context: HandoffContext) -> str:
    """Name what a handoff says: an identical one, said again in the same job, is refused."""
    said = context.model_dump_json(include={"from_agent", "to_agent", "reason", "context", "summary", "payload"})
    return hashlib.sha256(said.encode()).hexdigest()[:16]
