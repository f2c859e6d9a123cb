"""The limits of one leg: its agent's own, and those of the job that it belongs to."""

from collections.abc import Iterator, Mapping
from math import inf

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.job_limits import Period, Used
from ekiden.shared.outcomes import TerminationReason
from ekiden.shared.records import LimitNear
from ekiden.shared.relay.leg import Leg

__all__ = ["REASONS", "Limits", "job_is_used_up", "legs_left"]

NEAR = 0.8
"""The part of a limit from which on the model is told of it."""
REASONS: dict[str, TerminationReason] = {
    "max_turns": "MAX_TURNS",
    "max_legs": "MAX_LEGS",
    "max_seconds": "TIMEOUT",
    "max_tokens": "MAX_TOKENS",
    "max_cost_usd": "MAX_COST",
    **dict.fromkeys(("users.max_tokens", "sessions.max_tokens"), "MAX_TOKENS"),
    **dict.fromkeys(("users.max_cost_usd", "sessions.max_cost_usd"), "MAX_COST"),
}
"""Why a leg ends that has reached a limit, by the limit's name in files."""
_OF_JOB = "all agents that work on this job may use up together"
_SHARED = {"users": "this user may use up in {per}", "sessions": "this session may use up"}
_PERIODS: Mapping[Period, str] = {"hour": "an hour", "day": "a day", "week": "a week", "month": "a month"}
_UNITS = {
    "max_turns": "turns",
    "max_seconds": "seconds",
    "max_tokens": "tokens",
    "max_cost_usd": "US dollars",
}


class Limits:
    """Looks how much of its limits a leg has used up. What the job has is as of the leg's last write."""

    def __init__(self, leg: Leg, agent: AgentDefinition) -> None:
        self._leg = leg
        self._agent = agent

    def reached(self) -> Used | None:
        """Return a limit that leaves no further turn. Time ends by itself, and the last leg of a job may run."""
        return next((used for used in self._used() if used.share >= 1 and used.limit != "max_legs"), self._excess())

    @property
    def left_s(self) -> float:
        """The time that the leg and its job leave."""
        return min(self._agent.limits.max_seconds - self._leg.used_ms / 1000, self._leg.left_of_job_s)

    def out_of_time(self) -> Used:
        """Return which limit of time has ended the leg."""
        of_job = self._leg.spending.get("max_seconds")
        return of_job if of_job and self._leg.left_of_job_s <= 0 else self._seconds()

    async def tell(self) -> None:
        """Tell the model once, in the journal, of the first limit that is near."""
        if self._leg.conversation.is_warned:
            return
        if near := next((used for used in self._used() if used.share >= NEAR), None):
            await self._leg.record(
                LimitNear(leg=self._leg.number, limit=near.limit, of_job=near.of_job, text=_told(near))
            )

    def _used(self) -> Iterator[Used]:
        """Yield what the leg may use up, then what the job may."""
        turns, limits = self._leg.conversation.counted, self._agent.limits
        yield Used("max_turns", len(turns) + len(self._leg.conversation.repairs), limits.max_turns)
        yield self._seconds()
        if limits.max_tokens is not None:
            used = [*(turn.reply.usage for turn in turns), self._leg.conversation.beside]
            yield Used("max_tokens", sum(one.input_tokens + one.output_tokens for one in used), limits.max_tokens)
        if limits.max_cost_usd is not None:
            spent = sum(turn.reply.cost_usd or 0.0 for turn in turns) + self._leg.conversation.beside_usd
            yield Used("max_cost_usd", spent, limits.max_cost_usd)
        of_job = self._leg.spending
        yield from (used for used in of_job.values() if used.limit != "max_legs")
        yield from (used for used in of_job.values() if used.limit == "max_legs")  # the only one that ends nobody

    def _seconds(self) -> Used:
        return Used("max_seconds", self._leg.used_ms / 1000, self._agent.limits.max_seconds)

    def _excess(self) -> Used | None:
        legs = self._leg.spending.get("max_legs")
        return legs if legs and legs.spent > legs.most else None


def job_is_used_up(leg: Leg) -> bool:
    """Tell whether nothing more may be begun in the leg's job: the store refuses handoffs then."""
    return any(used.share >= 1 for used in leg.spending.values())


def legs_left(leg: Leg) -> float:
    """Return how many legs the job may still begin; infinite where that has no limit."""
    legs = leg.spending.get("max_legs")
    return legs.most - legs.spent if legs else inf


def _told(near: Used) -> str:
    if near.limit == "max_legs":
        left = max(0, round(near.most - near.spent))
        return f"This job may be handed over or delegated {left} times more (max_legs): do yourself what you can."
    shared, _, limit = near.limit.rpartition(".")
    whose = _SHARED.get(shared, _OF_JOB).format(per=_PERIODS[near.per]) if near.of_job else "you may use up here"
    spent, most = (f"{round(number, 2):,.10g}" for number in (near.spent, near.most))
    return (
        f"{spent} of the {most} {_UNITS[limit]} that {whose} are gone ({near.limit}). Come to an end with what is "
        "left: do what matters most first, and keep enough for your answer."
    )
