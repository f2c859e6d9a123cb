"""What calls cost."""

import pytest

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
