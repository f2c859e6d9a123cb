"""``ekiden usage``: what models have taken, by day, agent, user or model."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import say_json

if TYPE_CHECKING:
    from ekiden.shared.stores.usage import UsageRow

__all__ = ["usage"]

By = Literal["day", "agent", "user", "model"]
_KEPT_DAYS = 62
_DAY_S = 86_400
_COLUMNS = ("CALLS", "INPUT", "OUTPUT", "COST")


def usage(
    by: Annotated[By, typer.Option("--by", help="What to add up.")] = "day",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 7d, 4w; days are UTC's.")] = "7d",
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show the tokens and the money that models have taken."""
    sums = summed(asyncio.run(_rows(redis, data_dir, _days(since))), by)
    if as_json:
        for name, one in sums.items():
            say_json({by: name, **one.fields})
        return
    rows = [[name or "-", *one.cells] for name, one in sums.items()]
    if len(sums) > 1:
        total = Sum()
        for one in sums.values():
            total.add(one)
        rows.append(["all", *total.cells])
    Output().table((by.upper(), *_COLUMNS), rows)


@dataclass
class Sum:
    """What several calls took together."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: int = 0
    unpriced: int = 0

    def add(self, other: "Sum | UsageRow") -> None:
        """Add what others took."""
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.micro_usd += other.micro_usd
        self.unpriced += other.unpriced

    @property
    def fields(self) -> dict[str, object]:
        """The same for programs; ``cost_usd`` null: nobody knows the price of any call."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": None if self.unpriced == self.calls else self.micro_usd / 1e6,
            "unpriced_calls": self.unpriced,
        }

    @property
    def cells(self) -> list[str]:
        """The same for people."""
        cost = "unknown" if self.unpriced == self.calls else f"${self.micro_usd / 1e6:,.4f}"
        if 0 < self.unpriced < self.calls:
            cost += f" and {self.unpriced:,} call{'s' if self.unpriced > 1 else ''} of unknown price"
        return [f"{self.calls:,}", f"{self.input_tokens:,}", f"{self.output_tokens:,}", cost]


def summed(rows: "Iterable[UsageRow]", by: By) -> dict[str, Sum]:
    """Add rows up: days in their order, else the one with the most tokens first."""
    found: dict[str, Sum] = {}
    for row in rows:
        name = f"{datetime.fromtimestamp(row.day * _DAY_S, UTC):%Y-%m-%d}" if by == "day" else str(getattr(row, by))
        found.setdefault(name, Sum()).add(row)
    if by == "day":
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda item: (-(item[1].input_tokens + item[1].output_tokens), item[0])))


async def _rows(redis: str | None, data_dir: Path | None, days: int) -> "list[UsageRow]":
    async with connected(redis, data_dir) as client:
        return await client.usage(days)


def _days(text: str) -> int:
    found = re.fullmatch(r"(\d{1,3})([dw])", text.strip())
    days = int(found[1]) * (7 if found[2] == "w" else 1) if found else 0
    if not 1 <= days <= _KEPT_DAYS:
        raise InvalidRequest(f"--since {text!r}: expected a number of days or weeks, 1d to {_KEPT_DAYS}d, such as 7d")
    return days
