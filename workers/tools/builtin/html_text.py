"""What people read of an HTML page, as plain text.

The standard library's parser takes minutes for 20 kB of what is hardly a tag, in expressions that let no other thread
run. This one goes through a page once, whatever stands there.
"""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin

__all__ = ["text_of_html"]

_HIDDEN = frozenset({"head", "script", "style", "noscript", "template", "svg", "iframe", "object"})
_RAW = frozenset({"script", "style", "textarea", "title", "iframe"})
"""Elements in which nothing is a tag but their own end."""
_BLOCKS = (
    "address article aside blockquote br dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr li main "
    "nav ol p pre section table tr ul"
)
_LINES = frozenset(_BLOCKS.split())
"""What begins and ends a line."""
_BLANKS = re.compile(r"[ \t\r\f\v\xa0]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*")

_OPENING = re.compile(r"<(?=[a-zA-Z!?/])")
_NAME = re.compile(r"[a-zA-Z][^\s/>]*+")
_GAP = re.compile(r"[\s/]*+")
_ATTRIBUTE = re.compile(r"([^\s/>][^\s/>=]*+)(\s*+=\s*+)?")
_BARE = re.compile(r"[^\s>]*+")
_HUGE = re.compile(r"&#[0-9]{8,};?")
"""A number of a character that there is none of; Python refuses to read the longest."""


def text_of_html(page: str, url: str) -> str:
    """Return the text of a page that came from ``url``, links behind their words."""
    reader = _Reader(url)
    for piece in _pieces(page):
        if isinstance(piece, str):
            reader.data(piece)
        elif piece.is_end:
            reader.end(piece.name)
        else:
            reader.start(piece.name, piece.href)
    return _EMPTY_LINES.sub("\n\n", "".join(reader.pieces)).strip()


class _Tag(NamedTuple):
    name: str
    is_end: bool
    href: str = ""


def _pieces(page: str) -> Iterator[str | _Tag]:
    """Yield texts and tags. What is not closed reaches to the end of the page, as in browsers."""
    at = 0
    while opening := _OPENING.search(page, at):
        yield page[at : opening.start()]
        at = opening.end()
        is_end = page.startswith("/", at)
        if name := _NAME.match(page, at + is_end):
            href, at = _attributes(page, name.end())
            tag = name[0].lower()
            yield _Tag(tag, is_end, href)
            if tag in _RAW and not is_end:
                end = _end_of_raw(tag, page, at)
                yield page[at:end]
                at = end
        elif page.startswith("!--", at):
            at = _behind("-->", page, at + 1)
        else:
            at = _behind(">", page, at)
    yield page[at:]


def _attributes(page: str, at: int) -> tuple[str, int]:
    """Return where the attributes of a tag say that it leads, and the place behind the tag."""
    href = ""
    while found := _ATTRIBUTE.match(page, _GAP.match(page, at).end()):  # type: ignore[union-attr] # takes nothing, too
        at, value = found.end(), ""
        if found[2] is not None and (quote := page[at : at + 1]) in ("'", '"') and quote:
            end = _behind(quote, page, at + 1)
            value, at = page[at + 1 : end - 1], end
        elif found[2] is not None:
            bare = _BARE.match(page, at)
            value, at = (bare[0], bare.end()) if bare else ("", at)
        if found[1].lower() == "href" and not href:
            href = _unescaped(value)
    return href, _behind(">", page, at)


def _end_of_raw(tag: str, page: str, at: int) -> int:
    """Return where the end of an element begins that has no other tags in it."""
    found = re.compile(f"</{tag}", re.IGNORECASE).search(page, at)
    return found.start() if found else len(page)


def _behind(mark: str, page: str, at: int) -> int:
    found = page.find(mark, at)
    return found + len(mark) if found >= 0 else len(page)


def _unescaped(text: str) -> str:
    return html.unescape(_HUGE.sub("\ufffd", text))


class _Reader:
    def __init__(self, url: str) -> None:
        self.pieces: list[str] = []
        self._url = url
        self._hidden: list[str] = []
        """Elements that hide what is in them, from outside, each name once: the end of the first one ends all."""
        self._link = ""

    def start(self, tag: str, href: str) -> None:
        if tag in _HIDDEN and tag not in self._hidden:
            self._hidden.append(tag)
        if tag in _LINES:
            self.pieces.append("\n- " if tag == "li" else "\n")
        if tag == "a":
            self._link = href

    def end(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        if tag in _LINES:
            self.pieces.append("\n")
        if tag == "a" and self._link and not self._hidden:
            self.pieces.append(self._shown_link())
            self._link = ""

    def data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(_BLANKS.sub(" ", _unescaped(data)))

    def _shown_link(self) -> str:
        try:
            target = urljoin(self._url, self._link)
        except ValueError:
            return ""
        return f" ({target})" if target.startswith(("http://", "https://")) and "#" not in self._link[:1] else ""
