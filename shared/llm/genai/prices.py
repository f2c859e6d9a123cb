"""What Gemini's models cost."""

from collections.abc import Mapping

__all__ = ["LISTED", "VARIANT"]

LISTED: Mapping[str, tuple[float, float]] = {
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
}
"""A model -> US dollars for a million tokens: input, output; for its previews and versions as well.

Google's list of the Gemini API (ai.google.dev/gemini-api/docs/pricing): paid tier, text, prompts of up to 200,000
tokens; longer ones cost up to twice as much on the Pro models. Checked against copies that third parties made of it:
3.8, 3.5, 3.1 Pro, and of 2.5 Pro and Flash the input, of 2.5 Flash-Lite the output, on 7 October 2026; the rest of 2.5
and the other 3 and 3.1 between January and July 2026. 2.0 was not checked: as listed in 2025.
"""

VARIANT = r"(-(preview|exp|experimental|latest|customtools|\d+))*"
"""What may stand behind a listed name: its state, the day or number of its version, how it is offered tools.

A model that draws, speaks or listens has a text model's name with a word behind it, and another price: nobody said
what that is, so it is unknown.
"""
