"""What models cost, in US dollars for a million tokens; list prices change, so the settings may say otherwise."""

import re
from collections.abc import Mapping
from functools import lru_cache

from ekiden.shared.messages import Usage

__all__ = ["Prices"]

_LISTED: dict[str, tuple[float, float]] = {
    "gemini-3.8-flash": (0.75, 3.75),  # to the end of 2026; then twice that
    "gemini-3.5-flash-lite": (0.30, 2.50),
    "gemini-3.5-flash": (1.50, 9.00),
    "gemini-3.1-pro": (2.00, 12.00),
    "gemini-3.1-flash-lite": (0.25, 1.50),
    "gemini-3-pro": (2.00, 12.00),
    "gemini-3-flash": (0.50, 3.00),
    "gemini-2.5-pro": (1.25, 10.00),
    "gemini-2.5-flash-lite": (0.10, 0.40),
    "gemini-2.5-flash": (0.30, 2.50),
    "gemini-2.0-flash-lite": (0.075, 0.30),
    "gemini-2.0-flash": (0.10, 0.40),
    "scripted": (0.0, 0.0),
}
"""A model -> input, output, for its previews and versions as well; a price of 0 is a fact, too.

A model that draws, speaks or listens has a text model's name with a word behind it, and another price: nobody said
what that is, so it is unknown.

Google's list of the Gemini API (ai.google.dev/gemini-api/docs/pricing): paid tier, text, prompts of up to 200,000
tokens; longer ones cost up to twice as much on the Pro models. Checked against copies that third parties made of it:
3.8, 3.5, 3.1 Pro, and of 2.5 Pro and Flash the input, of 2.5 Flash-Lite the output, on 7 October 2026; the rest of 2.5
and the other 3 and 3.1 between January and July 2026. 2.0 was not checked: as listed in 2025.
"""

_SAME_MODEL = re.compile(r"(-(preview|exp|experimental|latest|customtools|\d+))*")
"""What may stand behind a listed name: its state, the day or number of its version, how it is offered tools."""


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
        name = model.rpartition("/")[2]
        for start, price in self._said:
            if name.startswith(start) or model == start:
                return price
        fitting = (one for one in _LISTED if name.startswith(one) and _SAME_MODEL.fullmatch(name, len(one)))
        return _LISTED.get(max(fitting, key=len, default=""))
