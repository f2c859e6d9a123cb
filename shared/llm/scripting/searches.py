"""What a stand-in looks for in a project, and what it makes of the lines that it finds."""

import re
from collections import defaultdict
from typing import Any

from ekiden.shared.llm.scripting.testruns import is_test
from ekiden.shared.patterns import escaped

__all__ = ["locations", "search_pattern", "search_words"]

MOST_WORDS = 3
MOST_PLACES = 8
MOST_SYMBOLS = 6
OUTLINE = r"^\s*(async def|def|class|func|fn|function|export|public class|interface|struct) "
"""What is looked for where the request has no word that code could have."""

_QUOTED = re.compile(r"`([^`\n]{2,60})`|\"([^\"\n]{2,60})\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,59}")
_LIKE_CODE = re.compile(r"_|[a-z][A-Z]")
_ENDING = re.compile(r"(ies|ing|ed|es|s)$")
_HIT = re.compile(r"([^:\n]+):(\d+):(.*)")
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|struct|interface|enum|type|const)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
)
_WORDS_OF_REQUESTS = """
about all and any are base between called calls can class code codebase config could decide decides defined describe
directory does done each every explain file files find folder for from function give handled happens has have how
implement implemented into its list look made make method module needs objective one order overview please program
project related relevant repo repository say see should show source system tell test tests that the their them there
they this through understand use used uses via walk was what when where which who why with work works would you your
"""
_COMMON = frozenset(_WORDS_OF_REQUESTS.split())


def search_words(request: str | None) -> list[str]:
    """Return the words of a request that code could have, those that look like code first; few."""
    request = request or ""
    quoted = [one or other for one, other in _QUOTED.findall(request)]
    words = [word for word in _WORD.findall(request) if word.casefold() not in _COMMON]
    words.sort(key=lambda word: (_LIKE_CODE.search(word) is None, -len(word)))
    return list(dict.fromkeys([*quoted, *words]))[:MOST_WORDS]


def search_pattern(words: list[str] | None) -> str:
    """Return the regular expression that finds these words, whatever their case and ending."""
    return f"(?i)({'|'.join(escaped(_stem(word)) for word in words)})" if words else OUTLINE


def locations(found: str | None, words: list[str] | None) -> list[dict[str, Any]]:
    """Return the files of a search's output, the likeliest first: ``FilePath``, ``Reasoning``, ``KeySymbols``."""
    lines: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for hit in filter(None, map(_HIT.fullmatch, (found or "").splitlines())):
        lines[hit[1]].append((int(hit[2]), hit[3].strip()))
    stems = [_stem(word).casefold() for word in words or []]
    ranked = sorted(lines, key=lambda path: _rank(path, lines[path], stems))
    return [_location(path, lines[path], words or []) for path in ranked[:MOST_PLACES]]


def _rank(path: str, hits: list[tuple[int, str]], stems: list[str]) -> tuple[Any, ...]:
    text = f"{path}\n" + "\n".join(line for _, line in hits)
    has = sum(stem in text.casefold() for stem in stems)
    defines = sum(_DEFINED.search(line) is not None for _, line in hits)
    return -has, is_test(path), not defines, -len(hits), path


def _location(path: str, hits: list[tuple[int, str]], words: list[str]) -> dict[str, Any]:
    shown = next((hit for hit in hits if _DEFINED.search(hit[1])), hits[0])
    symbols = dict.fromkeys(name for _, line in hits for name in _DEFINED.findall(line))
    reasoning = f"{len(hits)} line(s) match, such as line {shown[0]}: {shown[1][:120]}"
    return {
        "FilePath": path,
        "Reasoning": reasoning,
        "KeySymbols": list(symbols or dict.fromkeys(words))[:MOST_SYMBOLS],
    }


def _stem(word: str) -> str:
    return _ENDING.sub("", word) if len(word) > 5 else word
