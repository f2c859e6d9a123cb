"""What models were used for, day by day, and what is left of budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated

__all__ = ["RedisUsageStore", "UsageRow"]


@dataclass(frozen=True)
class UsageRow:
    """What one agent used one model for, for one user on one day (days since 1970, UTC)."""

    day: int
    agent: str
    user: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    micro_usd: int
    unpriced: int
    """Calls whose price nobody knows."""


class RedisUsageStore:
    """Reads what commits have counted."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    @translated
    async def rows(self, days: Sequence[int]) -> list[UsageRow]:
        """Return what was used on these days."""
        found: list[UsageRow] = []
        for day in days:
            fields: Mapping[str, str] = await as_any(self._redis.hgetall(keys.usage(str(day))))
            for name, text in fields.items():
                kind, *whose = name.split("\0", 3)  # a server says what its model is called, and may say anything
                if kind == "row" and len(whose) == 3:
                    agent, user, model = whose
                    found.append(UsageRow(day, agent, user, model, *_counts(text)))
        return found

    @translated
    async def spent(self, session: str) -> dict[str, int]:
        """Return what a session, and its user today, have used up, by the names of ``BUDGETS``."""
        names = ("user", "spent_tokens", "spent_micro")
        user, tokens, micro = await as_any(self._redis.hmget(keys.session(session), *names))
        day = keys.usage(str(await self.today()))
        row = await as_any(self._redis.hget(day, keys.usage_of(user or "")))
        if row is None and await as_any(self._redis.hlen(day)) >= keys.MAX_USAGE_FIELDS:
            row = await as_any(self._redis.hget(day, "user\0(others)"))
        _, input_tokens, output_tokens, user_micro, _ = _counts(row or "")
        return {
            "user_tokens": input_tokens + output_tokens,
            "user_micro": user_micro,
            "session_tokens": int(tokens or 0),
            "session_micro": int(micro or 0),
        }

    async def today(self) -> int:
        """Return which day it is for the server, in days since 1970."""
        return int(await self._now_s()) // keys.DAY_S

    @translated
    async def _now_s(self) -> float:
        seconds, _ = await as_any(self._redis.time())
        return float(seconds)


def _counts(row: str) -> list[int]:
    """Return the five counts of a row, as scripts read them: what is no number is none."""
    counts = [int(word) if word.isdecimal() else 0 for word in row.split()[:5]]
    return counts + [0] * (5 - len(counts))
