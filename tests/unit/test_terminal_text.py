"""Nothing that people look at steers their terminal, or hides from them."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.terminal_text import say, visible

JOINERS = "\u200c\u200d"
"""Format characters that scripts and emoji need."""
SIGNS = {chr(number) for number in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)}
SIGNS |= {chr(number) for number in (0x110BD, 0x110CD, *range(0x13430, 0x13440))}
"""Format characters that are seen: signs before numbers, joiners of hieroglyphs."""

steering = st.characters(categories=["Cc", "Cf", "Zl", "Zp"])
texts = st.text(st.one_of(steering, st.characters(exclude_categories=["Cs"])))


def steers(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind in ("Cc", "Cf", "Zl", "Zp", "Cs") and char not in JOINERS + "\t\n" and char not in SIGNS


@given(texts)
def test_no_character_that_steers_or_reorders_is_left(text: str) -> None:
    assert not [char for char in visible(text) if steers(char)]


@given(texts)
def test_what_is_shown_of_json_is_the_same_json(text: str) -> None:
    shown = visible(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {text: [text]}
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x9b2J", r"\u001b[2J\u009b2J"),
        ("if access != '\u202e user\u2066'", r"if access != '\u202e user\u2066'"),
        ("hi\U000e0068\U000e0069", r"hi\udb40\udc68\udb40\udc69"),
        ("☺\ufe01\ufe02\U000e0100", "☺\ufe01" + r"\ufe02\udb40\udd00"),
        ("soft\u00ad \u2800 \u034f \U000e0080", r"soft\u00ad \u2800 \u034f \udb40\udc80"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("lone \udcff", r"lone \udcff"),
    ],
)
def test_what_hides_is_spelt_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["修复 🎉\tok\n", "👨‍👩‍👧 ❤️", "می‌خواهم", "葛\U000e0100城", "שלום عالم"])
def test_what_people_write_stays(text: str) -> None:
    assert visible(text) == text


def test_errors_go_to_standard_error_as_harmless_as_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    say("fine\x07")
    say(ValueError("bad\u202e"), is_error=True)
    assert capsys.readouterr() == ("fine\\u0007\n", "bad\\u202e\n")
