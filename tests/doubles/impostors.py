"""Servers that stand where a Redis server is expected, each for the length of a ``with`` block that gets its port."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["certificate", "old_redis", "serving", "tls_server", "web_server"]

_WEB = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>\n</html>"
_DAY = datetime.timedelta(days=1)


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Let ``talk`` have every connection that comes, each in a thread of its own."""

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            talk(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@contextmanager
def web_server() -> Iterator[int]:
    """Somebody who speaks HTTP."""

    def talk(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(_WEB)

    with serving(talk) as port:
        yield port


@contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """Somebody who speaks TLS only, with a certificate that nobody trusts; ``folder`` is for its files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as spoken:
            spoken.recv(1000)

    with serving(talk) as port:
        yield port


@contextmanager
def old_redis(version: str = "6.2.14") -> Iterator[int]:
    """Just enough of a Redis server to say its version."""
    info = f"# Server\r\nredis_version:{version}\r\n".encode()
    replies = {
        b"HELLO": b"%1\r\n+server\r\n+redis\r\n" if version >= "6" else b"-ERR unknown command `HELLO`\r\n",
        b"PING": b"+PONG\r\n",
        b"SELECT": b"+OK\r\n",
        b"GET": b"_\r\n",
        b"INFO": b"$%d\r\n%s\r\n" % (len(info), info),
    }

    def talk(connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            while line := lines.readline():
                words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                connection.sendall(replies.get(words[0].upper(), b"-ERR unknown command\r\n"))

    with serving(talk) as port:
        yield port


def certificate(folder: Path) -> Path:
    """Make a certificate that nobody has signed but itself, with its key, and return its file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY)
    public = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + public)
    return path
