"""What a job, with all that is delegated below it, may use up, and what it has."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from ekiden.shared.bounds import NUMBER, between

__all__ = [
    "BUDGETS",
    "COUNTED",
    "NO_BUDGETS",
    "NO_LIMITS",
    "PERIODS",
    "SHARED",
    "UNLIMITED",
    "Budget",
    "Budgets",
    "JobLimits",
    "Period",
    "Spending",
    "Used",
    "read_spending",
    "spending_in",
]

COUNTED = ("turns", "legs", "ms", "tokens", "micro")
"""What is counted on the root job: turns, legs, milliseconds of work, tokens, millionths of a US dollar."""
SHARED = ("user_tokens", "user_micro", "session_tokens", "session_micro")
"""What others share, and is counted where they are: by the user's day, by the session."""
BUDGETS = (*SHARED, "user_per_s")
"""What a route sets of them: how much, and for which period of a user's, where that is no day."""
Period = Literal["hour", "day", "week", "month"]
PERIODS: Mapping[Period, int] = {"hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000}
"""What a user's budget is for, all by UTC, weeks from Monday on; and how the store calls it, in seconds, about."""
_MINUTES_OF_DAYS = 2 * 1_440
"""From how many on it is days and hours that are told."""
_FIELDS = {
    "turns": ("max_turns", 1),
    "legs": ("max_legs", 1),
    "ms": ("max_seconds", 1_000),
    "tokens": ("max_tokens", 1),
    "micro": ("max_cost_usd", 1_000_000),
}
_LIMITS_OF_SHARED = {
    "user_tokens": ("users.max_tokens", 1),
    "user_micro": ("users.max_cost_usd", 1_000_000),
    "session_tokens": ("sessions.max_tokens", 1),
    "session_micro": ("sessions.max_cost_usd", 1_000_000),
}
"""Of each the limit's name in files, and how many of it are one there."""
_PERIOD_OF: Mapping[str, Period] = {str(seconds): period for period, seconds in PERIODS.items()}


class Used(NamedTuple):
    """How much of a limit is used up, both in what files count in."""

    limit: str
    """Its name in files: ``max_turns``."""
    spent: float
    most: float
    of_job: bool = False
    """Whether it is a limit of the job, or one of a leg."""
    per: Period = "day"
    """What it is for, if it is a user's."""

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
    """What a user may use up in a period, or a session in all; None: any amount."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_tokens: Annotated[int, between(1, 1_000_000_000_000), NUMBER] | None = None
    max_cost_usd: Annotated[float, between(0, 1_000_000_000), NUMBER] | None = None


class UserBudget(Budget):
    """What a user may use up in a period."""

    per: Period = "day"


class Budgets(NamedTuple):
    """The budgets that hold for everybody."""

    users: UserBudget = UserBudget()
    """Of each user."""
    sessions: Budget = Budget()
    """Of each session, for as long as it lives."""

    @property
    def per_s(self) -> int | None:
        """What the store calls the period of the users' budget; None: a day."""
        return PERIODS[self.users.per] if self.users.per != "day" else None

    def counted(self) -> dict[str, int]:
        """Return those that there are, as the store counts them."""
        found = self._most()
        return found | {"user_per_s": self.per_s} if self.per_s and found else found

    def spending(self, spent: Mapping[str, int]) -> Spending:
        """Return what is used up of those that there are."""
        suffix = f"/{self.per_s}" if self.per_s else ""
        said = [
            (what, f"{what}{suffix if what.startswith('user_') else ''}", most) for what, most in self._most().items()
        ]
        return _spending((name, str(spent[what]), str(most)) for what, name, most in said)

    def _most(self) -> dict[str, int]:
        found = {}
        for what, (name, unit) in _LIMITS_OF_SHARED.items():
            whose, _, limit = name.partition(".")
            if (most := getattr(getattr(self, whose), limit)) is not None:
                found[what] = round(most * unit)
        return found


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
        counted, _, per_s = what.partition("/")
        name, unit = (_FIELDS | _LIMITS_OF_SHARED)[counted]
        per = _PERIOD_OF.get(per_s, "day")
        found[name] = Used(name, int(spent) / unit, int(most) / unit, of_job=True, per=per)
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
    whose = "today's" if used.per == "day" else f"this {used.per}'s"
    when = f"{(end := _end_of(used.per, now)):%Y-%m-%d %H:%M} UTC, in {_length(end - now)}"
    return f"the user has used up {whose} budget: {gone}; there is room again at {when}, or raise it in the settings"


def _end_of(period: Period, now: datetime) -> datetime:
    """Return when the period ends that ``now`` is in."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    match period:
        case "hour":
            return hour + timedelta(hours=1)
        case "day":
            return day + timedelta(days=1)
        case "week":
            return day + timedelta(days=7 - day.weekday())
        case "month":
            return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _length(time: timedelta) -> str:
    minutes = math.ceil(time.total_seconds() / 60)
    if minutes >= _MINUTES_OF_DAYS:
        return f"{minutes // 1_440} d {minutes % 1_440 // 60} h"
    return f"{minutes // 60} h {minutes % 60} min"
