"""What calls of models cost: by the lists of their providers, and first by the settings, since prices change."""

import re
from collections.abc import Mapping
from functools import lru_cache

from ekiden.shared.llm.models import served
from ekiden.shared.messages import Usage

__all__ = ["Prices"]


class Prices:
    """The price of a call: by the longest beginning that the settings name, else as listed."""

    def __init__(self, overrides: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._said = sorted((overrides or {}).items(), key=lambda item: -len(item[0]))
        self._price = lru_cache(maxsize=256)(self._price_of)

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return what ``usage`` of ``model`` costs; None when nobody said what it costs."""
        price = self._price(model)
        return None if price is None else (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / 1_000_000

    def _price_of(self, model: str) -> tuple[float, float] | None:
        name, provider = served(model)
        for start, price in self._said:
            if name.startswith(start) or model == start:
                return price
        if provider is None:
            return None
        variant = re.compile(provider.variant)
        fitting = (one for one in provider.prices if name.startswith(one) and variant.fullmatch(name, len(one)))
        return provider.prices.get(max(fitting, key=len, default=""))
