"""How much a tool can do: the five levels, from ``safe`` (only reads) to ``critical`` (ends or wipes a system)."""

from typing import Literal, get_args

__all__ = ["RISKS", "Risk"]

Risk = Literal["safe", "low", "medium", "high", "critical"]
RISKS: tuple[Risk, ...] = get_args(Risk)
"""From the least to the greatest."""
