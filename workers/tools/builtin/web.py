"""``web_fetch``: one page of the public web, as text."""

import codecs
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from urllib.parse import urljoin

from pydantic import BaseModel, Field

from ekiden.shared.errors import ToolError
from ekiden.shared.version import VERSION
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.html_text import text_of_html
from ekiden.workers.tools.builtin.web_addresses import Target, target_of

__all__ = ["web_fetch"]

_TIMEOUT_S = 30.0
_MAX_BYTES = 5_000_000
_MOST_REDIRECTS = 5
_PIECE = 65_536
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/yaml")
_TEXT_ENDINGS = ("+json", "+xml")
_OF_NAMES = frozenset({"idna", "punycode"})
"""Encodings of names, which no page has; to decode a long text takes them hours."""


class WebFetch(BaseModel):
    """Fetch a page of the public web over http or https and return its text. Of private networks nothing is fetched."""

    url: str = Field(min_length=1, description="The whole address, such as https://example.org/page")


@tool(WebFetch, idempotent=True, untrusted=True, risk="medium", timeout_s=2 * _TIMEOUT_S)
def web_fetch(args: WebFetch, context: ToolContext) -> str:
    """Follow redirects, each checked like the first address, and return the text behind the address it came from."""
    until = time.monotonic() + _TIMEOUT_S
    url = args.url
    for _ in range(_MOST_REDIRECTS + 1):
        target = target_of(url, context.private_hosts)
        found = _get(target, until, context)
        if isinstance(found, str):
            return f"{url}\n\n{found}"
        url = urljoin(url, found.location)
    raise ToolError(f"{args.url!r:.200} redirects more than {_MOST_REDIRECTS} times")


class _Redirect:
    def __init__(self, location: str) -> None:
        self.location = location


class _Connection(http.client.HTTPConnection):
    """Goes to the address that was checked, whatever the name means by now; TLS checks the name."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        super().__init__(target.host, target.port, timeout=timeout_s)
        self._target = target
        self._open: socket.socket | None = None
        """As ``sock``, which is let go of where the answer says that it is the last one."""

    def connect(self) -> None:
        plain = socket.create_connection((self._target.address, self._target.port), self.timeout)
        self.sock = self._open = plain
        if self._target.is_tls:
            self.sock = self._open = tls = _tls().wrap_socket(
                plain, server_hostname=self._target.host, do_handshake_on_connect=False
            )
            tls.do_handshake()

    @contextmanager
    def ended_at(self, until: float) -> Iterator[None]:
        """Break the connection off at a time, wherever it is then: a timeout counts anew with each byte."""
        timer = threading.Timer(_left(until), self._break_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _break_off(self) -> None:
        if self._open is not None:
            with suppress(OSError):  # it is closed
                socket.socket.shutdown(self._open, socket.SHUT_RDWR)


def _get(target: Target, until: float, context: ToolContext) -> str | _Redirect:
    connection = _Connection(target, _left(until))
    try:
        with connection.ended_at(until):
            found = _answer(target, connection, context)
        _left(until)  # what was broken off looks like a page that ends there
    except (OSError, http.client.HTTPException) as error:
        _left(until)
        raise ToolError(f"{target.url!r:.200} cannot be fetched: {type(error).__name__}: {str(error)[:200]}") from error
    finally:
        connection.close()
    return found


def _answer(target: Target, connection: _Connection, context: ToolContext) -> str | _Redirect:
    connection.putrequest("GET", target.path, skip_host=True, skip_accept_encoding=True)
    headers = {"Host": target.host_header, "User-Agent": f"ekiden/{VERSION}", "Accept": "text/*, application/json"}
    for name, value in {**headers, "Accept-Encoding": "identity", "Connection": "close"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    if answer.status in _REDIRECTS and (location := answer.headers.get("Location")):
        return _Redirect(location)
    if answer.status != http.HTTPStatus.OK:
        raise ToolError(f"{target.url!r:.200} answers {answer.status} {answer.reason[:100]}")
    kind = _kind(answer)
    text = _decoded(_body(answer, context), answer.headers.get_content_charset() or "utf-8")
    return text_of_html(text, target.url) if kind in _HTML else text


def _kind(answer: http.client.HTTPResponse) -> str:
    """Return the type of the content. Raises ``ToolError`` unless it is text as it is."""
    kind = answer.headers.get_content_type() if "Content-Type" in answer.headers else "text/plain"
    if not kind.startswith(_TEXTS) and not kind.endswith(_TEXT_ENDINGS) and kind not in _HTML:
        raise ToolError(f"it is of the type {kind[:100]!r}, expected text")
    if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) != "identity":
        raise ToolError(f"it is encoded as {encoding[:100]!r}, though plain text was asked for")
    return kind


def _body(answer: http.client.HTTPResponse, context: ToolContext) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        context.raise_if_cancelled()
        if not (piece := answer.read1(_PIECE)):
            return b"".join(pieces)
        pieces.append(piece)
        if (size := size + len(piece)) > _MAX_BYTES:
            raise ToolError(f"it has more than {_MAX_BYTES:,} bytes, which is the most that is fetched")


def _decoded(data: bytes, charset: str) -> str:
    try:
        known = codecs.lookup(charset).name
        return data.decode("utf-8" if known in _OF_NAMES else known, errors="replace")
    except (LookupError, ValueError):  # no name of an encoding of texts
        return data.decode(errors="replace")


def _left(until: float) -> float:
    """Return how many seconds are left. Raises ``ToolError``: none are."""
    if (left := until - time.monotonic()) <= 0:
        raise ToolError(f"it took more than {_TIMEOUT_S:g} s, which is the most that is waited for")
    return left


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
