"""Signatures of what a deployment keeps in Redis: who has no key can write there, and is not believed.

A signed text is ``~<key id>:<tag>~<text>``. The tag is keyed BLAKE2b over the kind of the text, its place (such as job
and position) and itself, each with its length before it: what was signed for one place is worth nothing at another.
The entries of a journal are chained: each is signed together with the tag of the one before. What the server writes
itself is left out: the time of an entry, and the number of an attempt. So starts of legs are signed each alone, and the
chain goes past them; their positions are in it all the same.

Without keys nothing is signed and nothing checked; what others have signed is read as if it were not.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ekiden.shared.errors import ConfigurationError, Forged

__all__ = ["OFF", "Seal", "Signing", "secrets_in", "signing_of", "split"]

_MARK = "~"
_SEALED = re.compile(r"~([\w-]{1,32}):([\w-]{43})~")
_KEY = re.compile(r"([\w-]{1,32}):(\S+)")
_LEAST = 32
"""Characters of a secret."""


class Seal(NamedTuple):
    """What stood before a signed text."""

    key: str
    tag: str


class Signing:
    """Signs with the first key, and checks with the one that a signature names."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {name: hashlib.blake2b(secret).digest() for name, secret in keys.items()}

    def __bool__(self) -> bool:
        """Whether there are keys."""
        return bool(self._keys)

    def __repr__(self) -> str:
        """Name the keys, never their secrets."""
        return f"Signing({', '.join(self._keys)})"

    def sign(self, kind: str, place: Iterable[str | int], text: str) -> str:
        """Return ``text`` signed for its place; as it is without keys."""
        return f"{self.mark(self.tag(kind, place, text))}{text}" if self._keys else text

    def tag(self, kind: str, place: Iterable[str | int], text: str) -> str:
        """Return the tag alone."""
        return _tag(next(iter(self._keys.values())), kind, place, text)

    def mark(self, tag: str) -> str:
        """Return what stands before a text with this tag."""
        return f"{_MARK}{next(iter(self._keys))}:{tag}{_MARK}"

    def read(self, kind: str, place: Iterable[str | int], signed: str) -> str:
        """Return the text that was signed for this place. Raises ``Forged`` where it was not, and there are keys."""
        seal, text = split(signed)
        self.check(kind, place, seal, text)
        return text

    def check(self, kind: str, place: Iterable[str | int], seal: Seal | None, text: str) -> None:
        """Raise ``Forged`` unless the seal is right, or there are no keys."""
        if not self._keys:
            return
        if seal is None:
            raise Forged(f"the {kind} is not signed")
        if seal.key not in self._keys:
            raise Forged(f"the {kind} is signed with the key {seal.key!r}, which is not known here")
        if not hmac.compare_digest(seal.tag, _tag(self._keys[seal.key], kind, place, text)):
            raise Forged(f"the signature of the {kind} is wrong: it was changed, or belongs elsewhere")


OFF = Signing({})


def split(signed: str) -> tuple[Seal | None, str]:
    """Return the seal of a text, if it has one, and the text."""
    if not signed.startswith(_MARK) or (found := _SEALED.match(signed)) is None:
        return None, signed
    return Seal(*found.groups()), signed[found.end() :]


def signing_of(setting: str | None) -> Signing:
    """Return what signs by ``ekiden.signing_key``: ``ID:SECRET``, several apart by commas or lines, or ``@FILE``.

    Raises ``ConfigurationError``, which repeats nothing of it.
    """
    return Signing({name: secret.encode() for name, secret in _keys_in(setting).items()}) if setting else OFF


def secrets_in(setting: str | None) -> list[str]:
    """Return the secrets of ``ekiden.signing_key``, for what masks them. Raises as ``signing_of`` does."""
    return list(_keys_in(setting).values()) if setting else []


def _keys_in(setting: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for word in re.split(r"[\s,]+", _text_of(setting).strip()):
        found = _KEY.fullmatch(word)
        if found is None or len(found[2]) < _LEAST or found[1] in keys:
            raise ConfigurationError(
                f"setting 'ekiden.signing_key': key {len(keys) + 1} is not ID:SECRET, with an id of its own (letters, "
                f"digits, _ and -) and a secret of {_LEAST} characters or more, as of: openssl rand -base64 32"
            )
        keys[found[1]] = found[2]
    return keys


def _text_of(setting: str) -> str:
    if not setting.startswith("@"):
        return setting
    try:
        return Path(setting[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"setting 'ekiden.signing_key': its file cannot be read: {type(error).__name__}"
        ) from error


def _tag(key: bytes, kind: str, place: Iterable[str | int], text: str) -> str:
    parts = [part.encode() for part in (kind, *map(str, place), text)]
    message = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    digest = hashlib.blake2b(message, key=key, digest_size=32, person=b"ekiden").digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
