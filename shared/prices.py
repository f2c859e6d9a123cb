"""What calls of models cost: by the lists of their providers, and first by the settings, since prices change."""

from collections.abc import Mapping
from functools import lru_cache

from ekiden.shared.llm.models import provider_of
from ekiden.shared.messages import Usage

__all__ = ["Prices"]


class Prices:
    """The price of a call, by the longest beginning of the model's name that is listed."""

    def __init__(self, overrides: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._price = lru_cache(maxsize=256)(self._price_of)

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return what ``usage`` of ``model`` costs; None when nobody said what it costs."""
        price = self._price(model)
        return None if price is None else (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / 1_000_000

    def _price_of(self, model: str) -> tuple[float, float] | None:
        name = model.rpartition("/")[2]
        provider = provider_of(name)
        listed = {**(provider.prices if provider else {}), **self._overrides}
        starts = [start for start in listed if name.startswith(start) or model == start]
        return listed[max(starts, key=len)] if starts else None
