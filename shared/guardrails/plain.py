"""Texts as validators read them: without what a reader does not see, and what is escaped as what it stands for."""

import re
import unicodedata

__all__ = ["plain", "unescaped"]

_UNSEEN = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
"""What Unicode calls default-ignorable: format characters, variation selectors, tags, fillers."""
_LINE_ENDS = re.compile("[\u0085\u2028\u2029]")
_WORDS = re.compile("[^，；！？]+")
"""All but marks that end a part of a Chinese sentence: their ASCII forms may stand within a password."""
_CODES = re.compile(r"\\+u([0-9a-fA-F]{4})")
_ESCAPES = re.compile(r"\\+([nrt\"/])")
_STANDS_FOR = {"n": "\n", "r": "\r", "t": "\t"}


def plain(text: str) -> str:
    """Return ``text`` with the usual form of each character (NFKC), without those that are not seen."""
    if text.isascii():  # has them all
        return text
    seen = _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))
    whole = seen.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # RE2 takes no lone surrogates
    return _WORDS.sub(lambda found: unicodedata.normalize("NFKC", found.group()), whole)


def unescaped(text: str) -> str:
    r"""Return ``text`` with what JSON escapes in it, as ``\u5fd8``, however often: JSON stands within JSON."""
    if "\\" not in text:
        return text
    written = _CODES.sub(lambda found: chr(int(found.group(1), 16)), text)
    return _ESCAPES.sub(lambda found: _STANDS_FOR.get(found.group(1), found.group(1)), written)
