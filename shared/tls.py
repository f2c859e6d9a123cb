"""What the HTTP clients of a process know of TLS, made once: to read the certificates takes 25 ms of CPU."""

import os
import ssl
from functools import cache

import httpx2

__all__ = ["tls_context"]


def tls_context() -> ssl.SSLContext:
    """Return the context of all clients: whom the system trusts, or the environment says to trust."""
    return _context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _context(*_named: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
