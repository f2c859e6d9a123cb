"""What models cost, in US dollars for a million tokens; list prices change, so the settings may say otherwise."""

from collections.abc import Mapping

from shared.messages import Usage

__all__ = ["Prices"]

_LISTED: dict[str, tuple[float, float]] = {
    "gemini-3-pro": (2.00, 12.00),
    "gemini-2.5-pro": (1.25, 10.00),
    "gemini-2.5-flash-lite": (0.10, 0.40),
    "gemini-2.5-flash": (0.30, 2.50),
    "gemini-2.0-flash-lite": (0.075, 0.30),
    "gemini-2.0-flash": (0.10, 0.40),
    "scripted": (0.0, 0.0),
}
"""The beginning of a model's name -> input, output. As the vendor listed them in 2025; a price of 0 is a fact, too."""


class Prices:
    """The price of a call, by the longest beginning of the model's name that is listed."""

    def __init__(self, overrides: Mapping[str, tuple[float, float]] | None = None) -> None:
        listed = {**_LISTED, **(overrides or {})}
        self._listed = sorted(listed.items(), key=lambda item: -len(item[0]))

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return what ``usage`` of ``model`` costs; None when nobody said what it costs."""
        name = model.rpartition("/")[2]
        for prefix, (per_input, per_output) in self._listed:
            if name.startswith(prefix) or model == prefix:
                return (usage.input_tokens * per_input + usage.output_tokens * per_output) / 1_000_000
        return None
