"""A server of HTTP in this process, which the doubles of providers are.

Each connection has a thread. Whatever waits or is kept ends with the server, so that nothing is left of a test.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["JSON", "HttpDouble", "HttpHandler"]

JSON = dict[str, Any]


class HttpDouble:
    """Serves from a thread while it is entered."""

    def __init__(self, handler: "type[HttpHandler]", host: str = "127.0.0.1", port: int = 0) -> None:
        self.requests: list[Any] = []
        self._lock = threading.Lock()
        self._go_on = threading.Event()
        self._http = _Server((host, port), handler)
        self._http.double = self
        self.url = f"http://{host}:{self._http.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.end()
        self._go_on.set()

    def record(self, request: Any) -> None:
        with self._lock:
            self.requests.append(request)

    def wait(self, seconds: float) -> None:
        """Let a caller wait, as a rule says."""
        self._go_on.wait(seconds)

    def release(self) -> None:
        """Let nobody wait any longer who does now."""
        waited_for, self._go_on = self._go_on, threading.Event()
        waited_for.set()

    def reset(self) -> None:
        """Be as new."""
        self.release()
        with self._lock:
            self.requests.clear()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    double: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connections: set[socket.socket] = set()
        self._has_ended = False

    def serve(self) -> None:
        with suppress(OSError):  # of a listener that has ended
            while True:
                connection, address = self.get_request()
                self._connections.add(connection)
                if self._has_ended:
                    _end(connection)
                self.process_request(connection, address)

    def end(self) -> None:
        """Listen no more, and end what callers keep."""
        self._has_ended = True
        for one in (self.socket, *list(self._connections)):
            _end(one)
        self.server_close()

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # callers that go away are part of the play
            super().handle_error(request, client_address)


def _end(one: socket.socket) -> None:
    with suppress(OSError):  # it has ended already
        one.shutdown(socket.SHUT_RDWR)


class HttpHandler(BaseHTTPRequestHandler):
    """Reads and writes for a double, whose words are those of the classes below."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536  # one packet a reply, else 40 ms of delayed acknowledgement

    @property
    def double(self) -> Any:
        return self.server.double

    def do_GET(self) -> None:
        self._play(self.get)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self._play(lambda: self.post(body))

    def get(self) -> None:
        """Answer one that asks for something."""

    def post(self, body: bytes) -> None:
        """Answer one that says something."""

    def _play(self, answer: Callable[[], None]) -> None:
        try:
            answer()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it)
        """Stay silent."""

    def send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON; with bytes as they are, which are a page's where ``headers`` say nothing else."""
        data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        kind = "text/html" if isinstance(value, bytes) else "application/json; charset=UTF-8"
        self.send_response(status)
        for name, text in ({"content-type": kind, "content-length": str(len(data))} | (headers or {})).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def stream(self, data: bytes) -> None:
        """Send a piece at once."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def drop(self) -> None:
        """Break the connection."""
        self.close_connection = True
        _end(self.connection)
