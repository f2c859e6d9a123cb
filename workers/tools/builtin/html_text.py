"""What people read of an HTML page, as plain text."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

__all__ = ["text_of_html"]

_HIDDEN = frozenset({"head", "script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCKS = (
    "address article aside blockquote br dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr li main "
    "nav ol p pre section table tr ul"
)
_LINES = frozenset(_BLOCKS.split())
"""What begins and ends a line."""
_BLANKS = re.compile(r"[ \t\r\f\v\xa0]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*")


def text_of_html(page: str, url: str) -> str:
    """Return the text of a page that came from ``url``, links behind their words."""
    reader = _Reader(url)
    reader.feed(page)
    reader.close()
    return _EMPTY_LINES.sub("\n\n", "".join(reader.pieces)).strip()


class _Reader(HTMLParser):
    """The standard library's parser: it takes any text, and never fails."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._url = url
        self._hidden: list[str] = []
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        if tag in _LINES:
            self.pieces.append("\n- " if tag == "li" else "\n")
        if tag == "a":
            self._link = dict(attrs).get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        if tag in _LINES:
            self.pieces.append("\n")
        if tag == "a" and self._link and not self._hidden:
            self.pieces.append(self._shown_link())
            self._link = ""

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(_BLANKS.sub(" ", data))

    def _shown_link(self) -> str:
        try:
            target = urljoin(self._url, self._link)
        except ValueError:
            return ""
        return f" ({target})" if target.startswith(("http://", "https://")) and "#" not in self._link[:1] else ""
