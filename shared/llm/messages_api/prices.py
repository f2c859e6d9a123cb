"""What Anthropic's models cost."""

from collections.abc import Mapping

__all__ = ["LISTED", "LONG_PROMPTS", "VARIANT"]

LISTED: Mapping[str, tuple[float, float]] = {
    "claude-opus-5-5": (4.00, 20.00),
    "claude-opus-5": (5.00, 25.00),
    "claude-opus-4-8": (5.00, 25.00),
    "claude-opus-4-7": (5.00, 25.00),
    "claude-opus-4-6": (5.00, 25.00),
    "claude-opus-4-5": (5.00, 25.00),
    "claude-opus-4-1": (15.00, 75.00),
    "claude-opus-4": (15.00, 75.00),
    "claude-sonnet-5-5": (2.00, 10.00),
    "claude-sonnet-5": (2.00, 10.00),
    "claude-sonnet-4-6": (3.00, 15.00),
    "claude-sonnet-4-5": (3.00, 15.00),
    "claude-sonnet-4": (3.00, 15.00),
    "claude-haiku-5-5": (0.10, 0.50),
    "claude-haiku-4-5": (1.00, 5.00),
}
"""A model -> US dollars for a million tokens: input, output; for its dated versions as well.

Anthropic's list (platform.claude.com/docs/en/about-claude/pricing) and its pages of models (…/docs/en/models), as
copies of them stood between 7 October 2026, when Haiku 5.5 came, and November; of Sonnet 4 and 4.5 and Haiku 4.5, of
the list of February 2026 as well. Those who keep such lists had checked them against the original on 24 October 2026.
Input that a cache had counts as any other, though it costs a tenth or less: so a call costs at most this, or a quarter
more where it fills the cache. Not counted: what faster answers, or those of one country's machines, cost more.
"""

LONG_PROMPTS: Mapping[str, tuple[int, float, float]] = {"claude-haiku-5-5": (100_000, 0.50, 2.50)}
"""A model -> above how many tokens of input a call costs more, and what; all of it. From the page of that model."""

VARIANT = r"(-(0|latest|\d{8}))?"
"""What may stand behind a listed name: the day of its version, or that it is the newest."""
