"""What a run of ``tests.benchmarks.chaos`` shows: counted from the journals and from the world outside."""

import itertools
import signal
from collections import defaultdict
from dataclasses import dataclass, field

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import UnknownJob
from ekiden.shared.records import Ended, Entry, HandedOff, LegStarted, ModelReplied, ToolFinished
from tests.integration.rewinds import Rewind, Window
from tests.integration.team import Effects
from tests.invariants import faults_of_job

__all__ = ["CHAIN", "SAFETIES", "Figures", "Plan", "at", "read_job"]

CHAIN = ("first", "second", "third")
SLACK_S = 0.05
"""Between the server's clock and when the world outside notes a request."""
SAFETIES = ("fence", "journal", "rewind")


@dataclass(frozen=True)
class Plan:
    """What to do to how many jobs."""

    jobs: int
    rate: float
    kill_every_s: float = 0.0
    server_kills: int = 0
    stop_every: int = 8
    """Every so many strikes one stops a pool instead of killing it."""
    strike: int = signal.SIGKILL
    mutate: str = ""
    lease_s: float = 5.0
    workers: int = 4
    within_s: float = 300.0
    rewind: Rewind | None = None
    rewinds: int = 5
    lost_s: float = 1.5
    """How much the server forgets each time."""
    wait_replicas: int = 0
    turn_s: float = 0.2


@dataclass
class Figures:
    """What a run showed."""

    plan: Plan
    lost: int = 0
    forgotten: int = 0
    """Jobs that a server which went back has forgotten, as it may."""
    unconfirmed: int = 0
    """Submissions that had to be repeated, because replicas did not have them."""
    broken: list[str] = field(default_factory=list)
    """What no journal may be like."""
    strangers: int = 0
    """Replies in journals that another process asked for than the one that held the leg."""
    given_up: int = 0
    doubled_effects: int = 0
    repeated_calls: int = 0
    repeated_replies: int = 0
    doubled_handoffs: int = 0
    doubled_ends: int = 0
    model_calls: int = 0
    unknown_told: int = 0
    worker_kills: int = 0
    worker_stops: int = 0
    server_kills: int = 0
    windows: list[Window] = field(default_factory=list)
    wall_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, int]:
        """What must be zero."""
        return {
            "lost": self.lost,
            "broken journals": len(self.broken),
            "replies of strangers": self.strangers,
            "given up": self.given_up,
            "doubled effects": self.doubled_effects,
            "finished tool calls repeated": self.repeated_calls,
            "recorded replies asked again": self.repeated_replies,
            "doubled handoffs": self.doubled_handoffs,
            "doubled ends": self.doubled_ends,
        }

    @property
    def broken_off(self) -> int:
        """Model calls whose answer never came to the journal: made again, at somebody's cost."""
        return self.model_calls - 2 * len(CHAIN) * (self.plan.jobs - self.forgotten)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost or done twice."""
        return not any(self.faults.values())

    def lines(self) -> list[str]:
        """The figures for people."""
        kills = f"pool kills {self.worker_kills}, stops {self.worker_stops}, server kills {self.server_kills}"
        if self.windows:
            lost_s = sum(window.ended - window.began for window in self.windows)
            kills += f", {self.plan.rewind} {len(self.windows)} times, {lost_s:.1f} s forgotten"
        return [
            f"jobs {self.plan.jobs}, {kills}, {self.wall_s:.0f} s",
            ", ".join(f"{name} {count}" for name, count in self.faults.items()),
            f"jobs forgotten {self.forgotten}, submissions repeated until confirmed {self.unconfirmed}",
            *self.broken[:5],
            f"calls told 'outcome unknown' {self.unknown_told}, model calls made again {self.broken_off}",
            f"latency {_spread(self.latencies_s)}",
            f"recovery of {len(self.recoveries_s)} interrupted legs {_spread(self.recoveries_s)}",
        ]


async def read_job(figures: Figures, client: Client, effects: Effects, job: str, accepted_s: float) -> None:
    """Add what one job shows, or that the server has forgotten it: only what was not confirmed may be."""
    try:
        view, entries = await client.job(job), await client.entries(job)
    except UnknownJob:
        if figures.plan.wait_replicas or not any(window.holds(accepted_s) for window in figures.windows):
            figures.lost += 1
        else:
            figures.forgotten += 1
        return
    figures.broken += [f"{job} {fault}" for fault in faults_of_job(view, entries)]
    _read(figures, entries, effects, job)


def _read(figures: Figures, entries: list[Entry], effects: Effects, job: str) -> None:
    """Add what one job's journal and the world outside say."""
    records = [entry.record for entry in entries]
    ends = [record for record in records if isinstance(record, Ended)]
    if not ends:
        figures.lost += 1
    elif ends[0].status != "done":
        figures.given_up += 1
    else:
        figures.latencies_s.append((entries[-1].at_ms - entries[0].at_ms) / 1000)
    figures.doubled_ends += max(0, len(ends) - 1)
    moves = [(record.leg, record.context.to_agent) for record in records if isinstance(record, HandedOff)]
    figures.doubled_handoffs += len(moves) - len(set(moves))
    finished = [record for record in records if isinstance(record, ToolFinished)]
    figures.unknown_told += sum(record.result.content.startswith("Outcome unknown") for record in finished)
    answered = {
        f"{job}:{e.record.leg}:{e.record.result.call_id}": e for e in entries if isinstance(e.record, ToolFinished)
    }
    replied = {f"{job}:{e.record.leg}:{e.record.turn}": e for e in entries if isinstance(e.record, ModelReplied)}
    figures.doubled_effects += _doubled(effects.requests("plain", job), figures)
    figures.strangers += _strangers(entries, effects.requests("model", job), job)
    figures.repeated_calls += len(finished) - len(answered)
    for kind in ("plain", "idempotent"):
        figures.repeated_calls += _too_late(effects.requests(kind, job), answered, entries)
    replies = sum(isinstance(record, ModelReplied) for record in records)
    figures.repeated_replies += replies - len(replied) + _too_late(effects.requests("model", job), replied, entries)
    figures.model_calls += sum(effects.of("model", job).values())
    figures.recoveries_s += _recoveries(entries)


def _doubled(asked: dict[str, list[tuple[float, int]]], figures: Figures) -> int:
    """How often something was done again, though the server had not forgotten that it was begun."""
    slack_s = figures.plan.lease_s
    return sum(
        not any(window.holds(earlier + SLACK_S, slack_s) for window in figures.windows)
        for requests in asked.values()
        for earlier, _ in sorted(requests)[:-1]
    )


def _strangers(entries: list[Entry], asked: dict[str, list[tuple[float, int]]], job: str) -> int:
    """How many replies are in the journal that another process has asked for than the one whose claim was in force."""
    count, pid = 0, 0
    for record in (entry.record for entry in entries):
        if isinstance(record, LegStarted):
            pid = int(record.worker.rsplit(".", 2)[1])
        elif isinstance(record, ModelReplied):
            count += pid not in {by for _, by in asked.get(f"{job}:{record.leg}:{record.turn}", ())}
    return count


def _too_late(asked: dict[str, list[tuple[float, int]]], recorded: dict[str, Entry], entries: list[Entry]) -> int:
    """How many requests were made though their result was in the journal that their process had read.

    A process that was stopped between the record before a step and the step takes it when it goes on: nothing can keep
    it from that, keys of idempotency make it harmless.
    """
    claims: dict[int, list[int]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry.record, LegStarted):
            claims[int(entry.record.worker.rsplit(".", 2)[1])].append(entry.at_ms)
    return sum(
        any(recorded[key].at_ms < at_ms < (time_s + SLACK_S) * 1000 for at_ms in claims[pid])
        for key, requests in asked.items()
        if key in recorded
        for time_s, pid in requests
    )


def _recoveries(entries: list[Entry]) -> list[float]:
    """How long each interrupted leg waited: from its last record to the next start."""
    return [
        (later.at_ms - earlier.at_ms) / 1000
        for earlier, later in itertools.pairwise(entries)
        if isinstance(later.record, LegStarted)
        and later.record.leg == earlier.record.leg
        and not isinstance(earlier.record, HandedOff)
        and earlier.record.type != "request"
    ]


def _spread(values: list[float]) -> str:
    """Median and tail for people."""
    return f"p50 {at(values, 0.5):.2f} s, p99 {at(values, 0.99):.2f} s"


def at(values: list[float], share: float) -> float:
    """The value below which ``share`` of ``values`` lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
