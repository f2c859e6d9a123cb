"""What calls cost."""

import pytest

from ekiden.shared.llm.anthropic import ANTHROPIC
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices

USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000)


def test_the_longest_name_that_fits_counts() -> None:
    prices = Prices()
    assert prices.cost_usd("gemini-2.5-flash-001", USAGE) == pytest.approx(0.30 + 0.25)
    assert prices.cost_usd("models/gemini-2.5-flash-lite", USAGE) == pytest.approx(0.10 + 0.04)


def test_settings_come_first() -> None:
    assert Prices({"gemini-2.5-flash": (1.0, 10.0)}).cost_usd("gemini-2.5-flash", USAGE) == pytest.approx(2.0)


def test_nobody_knows_the_price_of_an_unknown_model() -> None:
    assert Prices().cost_usd("llama", USAGE) is None
    assert Prices().cost_usd("scripted", USAGE) == 0.0


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("claude-opus-5-5", 4.0 + 2.0),
        ("claude-opus-5", 5.0 + 2.5),
        ("claude-opus-4-20250514", 15.0 + 7.5),
        ("claude-opus-4-5-20251101", 5.0 + 2.5),
        ("claude-sonnet-5-5", 2.0 + 1.0),
        ("claude-sonnet-4-0", 3.0 + 1.5),
        ("claude-haiku-4-5", 1.0 + 0.5),
        ("claude-opus-6", None),
        ("claude-opus-5-6", None),
        ("claude-haiku-5-5-vision", None),
    ],
)
def test_anthropics_models_cost_what_is_listed_and_what_is_not_is_unknown(name: str, price: float | None) -> None:
    assert Prices().cost_usd(name, USAGE) == (price if price is None else pytest.approx(price))


def test_every_model_of_anthropics_that_is_offered_here_has_a_price() -> None:
    assert all(Prices().cost_usd(name, USAGE) for name in ANTHROPIC.known)


@pytest.mark.parametrize(("tokens", "price"), [(100_000, 0.01 + 0.005), (100_001, 0.0500005 + 0.025)])
def test_a_long_prompt_costs_more_where_its_provider_says_so(tokens: int, price: float) -> None:
    usage = Usage(input_tokens=tokens, output_tokens=10_000)
    assert Prices().cost_usd("claude-haiku-5-5", usage) == pytest.approx(price)
    assert Prices({"claude-haiku": (0.1, 0.5)}).cost_usd("claude-haiku-5-5", usage) == pytest.approx(0.015, rel=1e-3)


@pytest.mark.parametrize("name", ["gemini-2.5-pro-preview-06-05", "gemini-3-pro-preview", "gemini-2.0-flash-exp"])
def test_a_preview_costs_what_its_model_costs(name: str) -> None:
    assert Prices().cost_usd(name, USAGE) is not None


@pytest.mark.parametrize(
    "name",
    [
        "gemini-3-pro-image",
        "gemini-3-pro-image-preview",
        "gemini-2.5-flash-image",
        "gemini-2.5-flash-preview-tts",
        "gemini-2.5-flash-native-audio-preview-09-2025",
        "gemini-2.0-flash-exp-image-generation",
        "gemini-2.5-profound",
    ],
)
def test_another_model_is_not_priced_as_the_one_whose_name_it_begins_with(name: str) -> None:
    assert Prices().cost_usd(name, USAGE) is None
    assert Prices({"gemini": (1.0, 1.0)}).cost_usd(name, USAGE) == pytest.approx(1.1)
