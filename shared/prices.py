"""What calls of models cost: by the lists of their providers, and first by the settings, since prices change."""

import re
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import NamedTuple

from ekiden.shared.llm.models import served
from ekiden.shared.messages import Usage

__all__ = ["Prices"]


class Prices:
    """The price of a call: by the longest beginning that the settings name, else as listed."""

    def __init__(self, overrides: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._said = sorted((overrides or {}).items(), key=lambda item: -len(item[0]))
        self._price = lru_cache(maxsize=256)(self._price_of)

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return what a call of ``model`` with ``usage`` costs; None when nobody said what it costs."""
        price = self._price(model)
        return None if price is None else price.of(usage)

    def _price_of(self, model: str) -> "_Price | None":
        name, provider = served(model)
        for start, price in self._said:
            if name.startswith(start) or model == start:
                return _Price(*price)
        if provider is None:
            return None
        variant = re.compile(provider.variant)
        fitting = (one for one in provider.prices if name.startswith(one) and variant.fullmatch(name, len(one)))
        listed = max(fitting, key=len, default="")
        if listed not in provider.prices:
            return None
        return _Price(*provider.prices[listed], *provider.long_prompts.get(listed, ()))


class _Price(NamedTuple):
    """US dollars for a million tokens; other ones for a call whose input is longer than ``longest``."""

    input: float
    output: float
    longest: float = inf
    long_input: float = 0.0
    long_output: float = 0.0

    def of(self, usage: Usage) -> float:
        """Return what a call costs."""
        is_long = usage.input_tokens > self.longest
        each = (self.long_input, self.long_output) if is_long else (self.input, self.output)
        return (usage.input_tokens * each[0] + usage.output_tokens * each[1]) / 1_000_000
