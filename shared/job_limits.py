"""What a job, with all that is delegated below it, may use up, and what it has."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict

from ekiden.shared.bounds import NUMBER, between

__all__ = [
    "BUDGETS",
    "COUNTED",
    "NO_BUDGETS",
    "NO_LIMITS",
    "UNLIMITED",
    "Budget",
    "Budgets",
    "JobLimits",
    "Spending",
    "Used",
    "read_spending",
    "spending_in",
]

COUNTED = ("turns", "legs", "ms", "tokens", "micro")
"""What is counted on the root job: turns, legs, milliseconds of work, tokens, millionths of a US dollar."""
BUDGETS = ("user_tokens", "user_micro", "session_tokens", "session_micro")
"""What others share, and is counted where they are: the user of today, the session."""
_FIELDS = {
    "turns": ("max_turns", 1),
    "legs": ("max_legs", 1),
    "ms": ("max_seconds", 1_000),
    "tokens": ("max_tokens", 1),
    "micro": ("max_cost_usd", 1_000_000),
}
_SHARED = {
    "user_tokens": ("users.max_tokens", 1),
    "user_micro": ("users.max_cost_usd", 1_000_000),
    "session_tokens": ("sessions.max_tokens", 1),
    "session_micro": ("sessions.max_cost_usd", 1_000_000),
}
"""Of each the limit's name in files, and how many of it are one there."""


class Used(NamedTuple):
    """How much of a limit is used up, both in what files count in."""

    limit: str
    """Its name in files: ``max_turns``."""
    spent: float
    most: float
    of_job: bool = False
    """Whether it is a limit of the job, or one of a leg."""

    @property
    def share(self) -> float:
        """The part that is used up: 1, or more, is all of it."""
        return self.spent / self.most if self.most else 1.0


Spending = Mapping[str, Used]
"""What a root job has used up of what it has a limit for, by the limit's name in files."""
NO_LIMITS: Spending = {}


class JobLimits(BaseModel):
    """What all agents that work for one request may use up together; None: any amount."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    max_turns: Annotated[int, between(1, 1_000_000), NUMBER] | None = None
    max_legs: Annotated[int, between(1, 1_000_000), NUMBER] | None = None
    """Stretches of work: each handoff, return and delegation begins one."""
    max_seconds: Annotated[float, between(1, 2_592_000), NUMBER] | None = None
    """In which agents work, those at the same time counted each; not what people and queues take."""
    max_tokens: Annotated[int, between(1, 1_000_000_000), NUMBER] | None = None
    max_cost_usd: Annotated[float, between(0, 1_000_000), NUMBER] | None = None

    def lowest(self, other: "JobLimits") -> "JobLimits":
        """Return of each limit the lower one."""
        both = {name: [getattr(one, name) for one in (self, other)] for name, _ in _FIELDS.values()}
        return JobLimits(
            **{name: min((one for one in found if one is not None), default=None) for name, found in both.items()}
        )

    def counted(self) -> dict[str, int]:
        """Return the limits that there are, as the store counts them."""
        said = {what: (getattr(self, name), unit) for what, (name, unit) in _FIELDS.items()}
        return {what: round(most * unit) for what, (most, unit) in said.items() if most is not None}


UNLIMITED = JobLimits()


class Budget(BaseModel):
    """What a user may use up in a day, or a session in all; None: any amount."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_tokens: Annotated[int, between(1, 1_000_000_000_000), NUMBER] | None = None
    max_cost_usd: Annotated[float, between(0, 1_000_000_000), NUMBER] | None = None


class Budgets(NamedTuple):
    """The budgets that hold for everybody."""

    users: Budget = Budget()
    """Of each user, for a day (UTC)."""
    sessions: Budget = Budget()
    """Of each session."""

    def counted(self) -> dict[str, int]:
        """Return those that there are, as the store counts them."""
        found = {}
        for what, (name, unit) in _SHARED.items():
            whose, _, limit = name.partition(".")
            if (most := getattr(getattr(self, whose), limit)) is not None:
                found[what] = round(most * unit)
        return found

    def spending(self, spent: Mapping[str, int]) -> Spending:
        """Return what is used up of those that there are."""
        return _spending((what, str(spent[what]), str(most)) for what, most in self.counted().items())


NO_BUDGETS = Budgets()


def read_spending(text: str) -> Spending:
    """Read what scripts say of it: what, how much of it is spent, and its limit, for each: ``turns 3 10``."""
    parts = text.split()
    return _spending(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def spending_in(fields: Mapping[str, str]) -> Spending:
    """Read it off the fields of a root job."""
    limited = [what for what in COUNTED if f"max_{what}" in fields]
    return _spending((what, fields.get(f"spent_{what}", "0"), fields[f"max_{what}"]) for what in limited)


def _spending(said: Iterable[tuple[str, str, str]]) -> Spending:
    found = {}
    for what, spent, most in said:
        name, unit = (_FIELDS | _SHARED)[what]
        found[name] = Used(name, int(spent) / unit, int(most) / unit, of_job=True)
    return found


def why_no_budget(used: Used, now: datetime | None = None) -> str:
    """Say that a budget which others share is used up, and when there is room again; empty for any other limit."""
    whose, _, limit = used.limit.rpartition(".")
    if not whose:
        return ""
    spent, most = (f"{round(number, 4):,.12g}" for number in (used.spent, used.most))
    unit = "tokens" if limit == "max_tokens" else "US dollars"
    gone = f"{spent} of {most} {unit} (limits.{used.limit})"
    if whose == "sessions":
        return f"this session has used up its budget: {gone}; begin another one, or raise it in the settings"
    now = now or datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    minutes = math.ceil((midnight - now).total_seconds() / 60)
    when = f"{midnight:%Y-%m-%d %H:%M} UTC, in {minutes // 60} h {minutes % 60} min"
    return f"the user has used up today's budget: {gone}; there is room again at {when}, or raise it in the settings"
