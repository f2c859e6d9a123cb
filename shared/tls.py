"""What the HTTP clients of a process know of TLS, made once: to read the certificates takes 25 ms of CPU."""

import os
import ssl
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import httpx2

__all__ = ["tls_context"]

_NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_SYSTEMS = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
"""Where systems keep their certificates: what is read where OpenSSL was built for another system."""


def tls_context() -> ssl.SSLContext:
    """Return the context of all clients: whom the system trusts, or the environment says to trust, by now.

    What was replaced since, or written anew, is read anew: certificates are rotated at the same path. Clients that
    there are keep what they were made with.
    """
    compiled = ssl.get_default_verify_paths()
    named = [os.environ.get(name) for name in _NAMED_BY]
    paths = [path for path in (*named, compiled.openssl_cafile, compiled.openssl_capath, *_SYSTEMS) if path]
    return _context(*named, *map(_version_of, paths))


def _version_of(path: str) -> tuple[int, ...]:
    """Return what another content of the file, or of the folder, has otherwise; nothing: it is not there."""
    with suppress(OSError, ValueError):
        found = Path(path).stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()


@lru_cache(maxsize=2)  # an older one nobody asks for again
def _context(*_read: str | tuple[int, ...] | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
