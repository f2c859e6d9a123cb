"""Advice on misspelt names, in bounded time."""

import time
from difflib import get_close_matches
from random import Random

import pytest

from ekiden.shared.suggestions import nearest

NAMES = ["code-fixer", "code-reviewer", "debugger", "documenter", "reviewer", "代码修复"]


@pytest.mark.parametrize("word", ["code-fixr", "reviewr", "debuger", "代码修", "", "zzz"])
def test_finds_what_the_standard_library_finds(word: str) -> None:
    assert nearest(word, NAMES) == get_close_matches(word, NAMES)
    assert nearest(word, NAMES, n=1, cutoff=0.3) == get_close_matches(word, NAMES, n=1, cutoff=0.3)


@pytest.mark.parametrize("word", ["abc", "abcabc", "cabba"])
def test_finds_the_same_among_many_that_are_alike(word: str) -> None:
    chance = Random(1)
    many = ["".join(chance.choices("abc", k=chance.randint(2, 6))) for _ in range(300)]
    for n in (1, 3, 20):
        assert nearest(word, many, n) == get_close_matches(word, many, n)


@pytest.mark.parametrize("word", ["a" * 10_000_000, "abcdefghij" * 20])
def test_takes_no_longer_than_it_may(word: str) -> None:
    alike = ("".join(Random(n).sample("abcdefghij" * 20, 200)) for n in range(100_000))
    began = time.thread_time()
    nearest(word, alike, cpu_s=0.05)
    assert time.thread_time() - began < 0.5
