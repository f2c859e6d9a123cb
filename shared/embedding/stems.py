"""Texts as the words that carry meaning, inflection cut off: ``debugging`` and ``debugs`` are ``debug``.

Function words tell nothing about whose work a request is, and in a text of ten words they are half of what matches.
"""

import sys
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from itertools import pairwise
from typing import Any, cast

from ekiden.shared.embedding.word_index import is_unspaced, words_of

__all__ = ["stem", "stems_of"]

_PACKAGE = "snowballstemmer"

_FUNCTION_WORDS = frozenset(
    """
    a about after agent all am an and any are as at be been before but by can could customer did do does for from had
    has have help he her here his how i if in into is it its just let make me more my need needs new no not now of on
    or our out please she should so some than thank thanks that the their them then there these they this those to up
    us use user users want wants was we were what when where whether which who why will with would you your
    """.split()  # noqa: SIM905  # a list would be one word a line
)
_FUNCTION_CHARACTERS = frozenset("的了吗呢吧啊我你您他她它们是在有和与及或把被请这那个一不就也都给让什么怎样为")


def stems_of(text: str) -> list[str]:
    """Return the words of ``text`` that carry meaning, stemmed; of unspaced scripts the characters and the pairs."""
    words = words_of(text)
    return [*_single(words), *_pairs(words)]


def _single(words: list[str]) -> Iterator[str]:
    for word in words:
        if is_unspaced(word):
            if word not in _FUNCTION_CHARACTERS:
                yield word
        elif len(word) > 1 and word not in _FUNCTION_WORDS:
            yield stem(word)


def _pairs(words: list[str]) -> Iterator[str]:
    for first, second in pairwise(words):
        if is_unspaced(first + second):
            yield first + second


@lru_cache(65_536)
def stem(word: str) -> str:
    """Return ``word`` without its English inflection; other words come back as they are, or nearly."""
    with _stemming:
        return str(_stemmer().stemWord(word))


_stemming = threading.Lock()
"""A stemmer serves one thread at a time."""


@cache
def _stemmer() -> Any:
    """Return the stemmer of English, without its package: to import that imports those of thirty other languages."""
    package = module_from_spec(cast(ModuleSpec, find_spec(_PACKAGE)))
    is_first = sys.modules.setdefault(_PACKAGE, package) is package
    try:
        return import_module(f"{_PACKAGE}.english_stemmer").EnglishStemmer()
    finally:
        if is_first:
            del sys.modules[_PACKAGE]  # it has not run: who imports it next is to have it whole
