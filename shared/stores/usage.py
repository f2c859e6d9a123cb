"""What models were used for, day by day, and what of budgets is used up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ekiden.shared.job_limits import SHARED
from ekiden.shared.stores import keys
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.scripts import Scripts

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
        self._scripts = Scripts(client)

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
    async def spent(self, session: str, per_s: int | None = None) -> dict[str, int]:
        """Return what a session has used up, and its user today, or in the running period of ``per_s`` seconds.

        By the names of ``SHARED``.
        """
        said = await self._scripts.run("spent", session=keys.session(session), per_s=per_s or "")
        return dict(zip(SHARED, map(int, said), strict=True))

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
