"""The TLS context of all clients: made once, and anew once the certificates are others."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ekiden.shared import tls
from ekiden.shared.tls import tls_context
from tests.doubles.impostors import certificate


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A file with one certificate."""
    path = tmp_path / "bundle.pem"
    path.write_bytes(certificate(tmp_path).read_bytes())
    return path


def replaced(bundle: Path) -> None:
    """What rotates certificates renames a new file, of the same size and age, over the old one."""
    found = bundle.stat()
    new = bundle.with_suffix(".new")
    new.write_bytes(bundle.read_bytes())
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
    new.rename(bundle)


def written_anew(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes() + certificate(bundle.parent).read_bytes())


def led_elsewhere(bundle: Path) -> None:
    """What mounts configuration swaps a link."""
    bundle.rename(bundle.with_suffix(".old"))
    bundle.symlink_to(certificate(bundle.parent))


def named(bundle: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file, or its folder, be what the environment names, or what OpenSSL was built to read."""
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    if name == "the system's":
        paths = SimpleNamespace(openssl_cafile=str(bundle), openssl_capath=str(bundle.parent / "none"))
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    else:
        monkeypatch.setenv(name, str(bundle if name == "SSL_CERT_FILE" else bundle.parent))


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "the system's"])
@pytest.mark.parametrize("rotated", [replaced, led_elsewhere])
def test_certificates_that_are_rotated_at_the_same_path_are_read_anew_and_once(
    name: str, rotated: Callable[[Path], None], bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(bundle, name, monkeypatch)
    before = tls_context()
    assert tls_context() is before
    rotated(bundle)
    after = tls_context()
    assert after is not before
    assert tls_context() is after


def test_what_a_file_that_is_written_anew_holds_is_trusted(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert tls_context().cert_store_stats()["x509"] == 1
    written_anew(bundle)
    assert tls_context().cert_store_stats()["x509"] == 2


def test_a_file_that_is_not_there_yet_is_an_error_until_it_is(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = bundle.rename(bundle.with_suffix(".later"))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    with pytest.raises(FileNotFoundError):
        tls_context()
    there.rename(bundle)
    assert tls_context().cert_store_stats()["x509"] == 1


def test_contexts_of_before_are_not_kept(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    for _ in range(5):
        written_anew(bundle)
        tls_context()
    assert tls._context.cache_info().currsize <= 2
