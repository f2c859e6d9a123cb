"""What a policy would have decided about the calls in the journals, one journal after the other."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.shared.messages import ToolCall
from ekiden.shared.policy.cases import tool_use
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import folders_policy
from ekiden.shared.policy.tool_use import SHELL
from ekiden.shared.records import Entry, JobRequested, LegStarted, ModelReplied, ToolFinished, ToolStarted, shared_in
from ekiden.shared.records.approvals import ApprovalAsked

__all__ = ["ChangedCall", "Replay", "replayed"]

_CONTROLS = ("complete_task", "exit")


@dataclass(frozen=True)
class ChangedCall:
    """A call that would be decided otherwise."""

    job: str
    agent: str
    tool: str
    call: str
    was: str
    """``allow`` (it ran), ``ask`` (a person was asked) or ``deny`` (neither)."""
    verdict: str
    rule: str
    reason: str


@dataclass
class Replay:
    """What came out.

    Attributes:
        jobs: How many were read.
        calls: How many calls of tools they have.
        counts: How often what happened, and what would, go together.
        examples: Calls that would be decided otherwise, the newest job's first; no more than were wanted.
        is_cut: Whether there are more jobs than were to be read.
    """

    jobs: int = 0
    calls: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[ChangedCall] = field(default_factory=list)
    is_cut: bool = False

    @property
    def changed(self) -> int:
        """How many calls would be decided otherwise."""
        return sum(count for (before, after), count in self.counts.items() if before != after)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        counts = [{"was": was, "verdict": verdict, "calls": count} for (was, verdict), count in self.counts.items()]
        changed = [asdict(one) for one in self.examples]
        shown = {"jobs": self.jobs, "calls": self.calls, "changed": self.changed, "is_cut": self.is_cut}
        return {**shown, "counts": counts, "list": changed}


async def replayed(client: Client, policy: Policy, *, since_s: float, limit: int, shown: int) -> Replay:
    """Judge the calls of the newest jobs by the policy, with the rules that their folders have now.

    What agents' files say is left out, and so is what was approved in advance: this is about the rules.

    Args:
        client: Of the server that has the journals.
        policy: The operator's.
        since_s: How old a job may be, in seconds.
        limit: How many jobs are read at most; one journal is in memory at a time.
        shown: How many changed calls are kept.
    """
    found, oldest_ms = Replay(), (time.time() - since_s) * 1_000
    jobs = [view for view in await client.jobs(limit + 1) if view.created_ms >= oldest_ms]
    found.is_cut = len(jobs) > limit
    for view in jobs[:limit]:
        _judge(found, view.id, await client.entries(view.id), policy, shown)
    return found


def _judge(found: Replay, job: str, entries: Sequence[Entry], policy: Policy, shown: int) -> None:
    found.jobs += 1
    request = next((one.record for one in entries if isinstance(one.record, JobRequested)), None)
    cwd = Path(request.cwd) if request is not None and request.cwd else Path.cwd()
    here = folders_policy(policy, cwd)
    for agent, call, was in _calls(entries):
        use = tool_use(call.name, call.args, cwd=cwd, agent=agent)
        decision = here.decide(use)
        found.calls += 1
        found.counts[was, decision.verdict] += 1
        if was != decision.verdict and len(found.examples) < shown:
            text = str(call.args.get("command", "")) if use.tool == SHELL else use.json.decode("utf-8", "replace")
            changed = ChangedCall(job, agent, use.tool, text, was, decision.verdict, decision.rule, decision.reason)
            found.examples.append(changed)


def _calls(entries: Sequence[Entry]) -> Iterator[tuple[str, ToolCall, str]]:
    """Yield each call of a tool: whose it is, and what became of it. What moves control is no such call.

    Calls that were over where a fork begins are the other job's.
    """
    records, shared = [entry.record for entry in entries], entries[: shared_in(entries)]
    over = {(one.record.leg, one.record.result.call_id) for one in shared if isinstance(one.record, ToolFinished)}
    asked = {(one.leg, one.call_id) for one in records if isinstance(one, ApprovalAsked)}
    started = {(one.leg, one.call_id) for one in records if isinstance(one, ToolStarted)}
    agents: dict[int, str] = {}
    for record in records:
        if isinstance(record, LegStarted):
            agents[record.leg] = record.agent
        if not isinstance(record, ModelReplied):
            continue
        for call in record.message.calls:
            key = (record.leg, call.id)
            if key in over or tool_use(call.name, {}, cwd=Path()).is_control or call.name in _CONTROLS:
                continue
            yield agents.get(record.leg, ""), call, "ask" if key in asked else "allow" if key in started else "deny"
