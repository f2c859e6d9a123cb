"""``web_fetch`` against a server of this process, and against addresses that it must not ask."""

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin import web
from ekiden.workers.tools.builtin.html_text import text_of_html
from ekiden.workers.tools.builtin.web import web_fetch
from ekiden.workers.tools.builtin.web_addresses import target_of

PAGE = """<html><head><title>t</title><style>p {}</style></head><body><h1>Cart</h1>
<script>alert(1)</script><p>Two   words &amp; a <a href="/next">link</a>.</p><ul><li>one<li>two</ul></body></html>"""


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, headers, body = self.server.pages[self.path]  # type: ignore[attr-defined]
        self.server.asked.append(self.headers)  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.pages, server.asked = {}, []
    server.name = f"127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


def fetch(url: str, context: ToolContext, *allowed: str) -> str:
    there = replace(context, private_hosts=frozenset(allowed))
    return str(web_fetch.function(web_fetch.parse({"url": url}), there))


def text(body: bytes, kind: str = "text/plain", status: int = 200, **headers: str) -> tuple[int, dict[str, str], bytes]:
    named = {"location": "Location", "encoding": "Content-Encoding"}
    return status, {"Content-Type": kind, **{named[name]: value for name, value in headers.items()}}, body


def test_a_page_comes_as_its_text_and_names_where_it_is_from(site: Any, context: ToolContext) -> None:
    site.pages["/a?q=1"] = text(PAGE.encode(), "text/html; charset=utf-8")
    said = fetch(f"http://{site.name}/a?q=1", context, site.name)
    assert said.startswith(f"http://{site.name}/a?q=1\n\nCart\n")
    assert f"Two words & a link (http://{site.name}/next)." in said
    assert "- one" in said
    assert "alert" not in said
    assert site.asked[0]["Host"] == site.name


def test_other_texts_come_as_they_are_in_their_encoding(site: Any, context: ToolContext) -> None:
    site.pages["/"] = text("é <b>".encode("latin-1"), "text/plain; charset=latin-1")
    site.pages["/j"] = text(b'{"a": 1}', "application/problem+json")
    site.pages["/odd"] = text(b"x", "text/plain; charset=no-such")
    assert fetch(f"http://{site.name}", context, site.name).endswith("\n\né <b>")
    assert fetch(f"http://{site.name}/j", context, site.name).endswith('{"a": 1}')
    assert fetch(f"http://{site.name}/odd", context, site.name).endswith("\n\nx")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (text(b"\x89PNG", "image/png"), "type 'image/png', expected text"),
        (text(gzip.compress(b"x"), encoding="gzip"), "encoded as 'gzip'"),
        (text(b"gone", status=404), "answers 404"),
        (text(b"x" * 2_000), "more than 1,000 bytes"),
        (text(b"", status=302, location="/page"), "redirects more than 5 times"),
        (text(b"", status=302, location="file:///etc/passwd"), "expected http:// or https://"),
        (text(b"", status=302, location="http://127.0.0.2:1/"), "not of the public internet"),
        (text(b"", status=302, location="http://u:p@example.org/"), "user or a password"),
    ],
)
def test_what_is_no_page_of_the_web_is_told(
    page: tuple[int, dict[str, str], bytes], said: str, site: Any, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_MAX_BYTES", 1_000)
    site.pages["/page"] = page
    with pytest.raises(ToolError, match=said):
        fetch(f"http://{site.name}/page", context, site.name)


def test_a_server_that_drips_is_not_waited_for(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ToolError, match=r"cannot be fetched: TimeoutError|more than 0\.3 s"):
            fetch(f"http://{name}/", context, name)


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["headers", "body", "chunks"],
)
def test_nor_one_that_sends_a_little_all_the_time(
    beginning: bytes, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_TIMEOUT_S", 0.5)
    left = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(beginning)
            while not left.wait(0.02):
                connection.sendall(b"0")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        name = f"127.0.0.1:{server.getsockname()[1]}"
        try:
            with pytest.raises(ToolError, match=r"more than 0\.5 s"):
                fetch(f"http://{name}/", context, name)
            dripping.join(60)
            assert not dripping.is_alive(), "the connection was closed"
        finally:
            left.set()


def test_an_encoding_of_names_is_none_of_a_page(site: Any, context: ToolContext) -> None:
    site.pages["/"] = text(b"-" + b"b" * 1_000_000, "text/plain; charset=punycode")
    assert fetch(f"http://{site.name}/", context, site.name).endswith("bbb")


@pytest.mark.parametrize(
    "piece", ["<a '", '<a x="', "<!--", "</a", "<?", "</", "<", "<a x=", "<svg>", "<script>", "&#", "\n<", "<p>"]
)
def test_a_page_is_read_in_no_more_time_than_its_length_takes(piece: str) -> None:
    began = time.process_time()
    text_of_html(piece * (200_000 // len(piece)), "http://a/")
    assert time.process_time() - began < 10, "a tenth of it takes a second; what the time grows with is the length"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1"),
        *("fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::7f00:1"),
        *(
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a00:1",
            "64:ff9b:1:7f00:0:100:808:808",
            "3fff::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
        ),
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(0, 0, 0, "", ("93.184.216.34", 80)), (0, 0, 0, "", (address, 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ToolError, match=r"not of the public internet: .* tools\.web_fetch\.allow_private"):
        target_of("http://example.org/", ())
    assert target_of("http://example.org/", {"example.org:80"}).address == "93.184.216.34"


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_a_public_address_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 443))])
    target = target_of("https://example.org/ä b?x=ü".replace(" ", "%20"), ())
    assert (target.address, target.host_header, target.path) == (address, "example.org", "/%C3%A4%20b?x=%C3%BC")


@pytest.mark.parametrize(
    "url",
    ["ftp://a/", "http://", "//a/", "a", "http://a:99999/", "http://u@a/", "http://a/\nb", "http://[::1", "http://a b"]
)  # fmt: skip
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(ToolError):
        target_of(url, ())


def test_the_connection_goes_to_what_was_checked_whatever_the_name_means_by_then(
    site: Any, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/"] = text(b"public")
    answers = iter(["127.0.0.1", "10.0.0.1"])  # a name server of somebody who means ill
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        return real(next(answers) if host == "rebind.test" else host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    name = f"rebind.test:{site.server_port}"
    assert fetch(f"http://{name}/", context, name).endswith("public")
    assert site.asked[0]["Host"] == name
    assert next(answers) == "10.0.0.1", "the name was asked for once"


def test_odd_pages_are_text_all_the_same() -> None:
    assert text_of_html("<p>a<br>b<script>x", "http://a/") == "a\nb"
    assert text_of_html("</p></script>a<a href='http://[x'>b</a>&#0;", "http://a/").startswith("ab")
    page = "<TITLE>t</title>1 < 2 &lt; 3<!-- <p>no --><A data-href=x HREF = '/y>' >b</a ><textarea><p></textarea>"
    assert text_of_html(page, "http://a/") == "t1 < 2 < 3b (http://a/y>)<p>"
    assert text_of_html("<div title='a>b'>c</div><img src=x>d", "http://a/") == "c\nd"
    assert text_of_html("&#" + "1" * 5_000, "http://a/") == "\ufffd"
