"""What text and JSON become where they come in."""

import json
import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.storable import MAX_DEPTH, has_nan, nests_too_deep, read_json, storable
from ekiden.shared.variables import problem_of

HALVES = "".join(map(chr, range(0xD800, 0xE000)))


def anything(seed: int) -> Any:
    """JSON with text of any characters and halves of them; drawn part by part, it would take seconds."""
    return _anything(Random(seed), depth=4)


def _anything(chance: Random, depth: int) -> Any:
    inner = [_anything(chance, depth - 1) for _ in range(chance.randrange(6) if depth else 0)]
    kinds = [inner, {_text(chance): one for one in inner}, None, True, chance.randint(-(2**70), 2**70)]
    return chance.choice([*kinds[:2] * 2, *kinds[2:], _text(chance), _text(chance)])


def _text(chance: Random) -> str:
    signs = ["a\0\n", "好🐛", chr(chance.randrange(sys.maxunicode + 1)), HALVES, HALVES]
    return "".join(chance.choice(chance.choice(signs)) for _ in range(chance.randrange(12)))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("bad \ud800!", "bad \ufffd!"),
        ("\udfff\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00 joined", "😀 joined"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
        ("nul \x00, 好 🐛", "nul \x00, 好 🐛"),
    ],
)
def test_a_lone_half_of_a_character_is_replaced_and_two_that_fit_are_joined(text: str, kept: str) -> None:
    assert storable(text) == kept
    assert storable({text: [text, (text, 1, None)]}) == {kept: [kept, [kept, 1, None]]}


@given(st.integers(0, 2**32).map(anything))
def test_everything_is_utf_8_and_stays_so(value: Any) -> None:
    kept = storable(value)
    text = json.dumps(kept, ensure_ascii=False)
    assert json.loads(text.encode()) == kept
    assert storable(kept) == kept


@given(st.text())
def test_good_text_is_left_alone(text: str) -> None:
    assert storable(text) is text


def nested(levels: int) -> Any:
    value: Any = "x"
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def test_levels_are_counted() -> None:
    assert [nests_too_deep(nested(levels)) for levels in (0, 1, MAX_DEPTH, MAX_DEPTH + 1, 100_000)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 300, 100_000])
def test_a_session_variable_that_nests_too_deep_is_refused(levels: int) -> None:
    assert problem_of("deep", nested(levels))
    assert problem_of("deep", nested(MAX_DEPTH)) is None


def test_a_name_that_an_object_has_twice_is_refused_unless_the_last_one_is_to_count() -> None:
    text = '[{"a": 1, "限": 2, "限": 200}]'
    with pytest.raises(ValueError, match="'限' stands there twice, and only one would count"):
        read_json(text)
    assert read_json(text, lenient=True) == [{"a": 1, "限": 200}]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_would_be_written_as_null_is_no_number(word: str) -> None:
    text = f'{{"a": [1.5, {word}]}}'
    with pytest.raises(ValueError, match=r"no JSON|beyond all numbers"):
        read_json(text)
    assert has_nan(read_json(text, lenient=True))
    assert not has_nan({"a": [1.5, 10**400, "NaN", None]})
