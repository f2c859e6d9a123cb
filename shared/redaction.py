"""Masks secrets in all text that leaves the program: traces, logs, exported journals.

What is masked: keys and tokens by their shape, what follows ``password=`` and its like, bearer tokens, passwords in
URLs, private keys, the values of this process's own variables that are named like secrets, and the user's patterns.
Everything is RE2: linear in the text, whatever somebody sends.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import re2

from shared.errors import ConfigurationError, DefinitionError
from shared.patterns import compile_pattern, raw_pattern

__all__ = ["MASK", "Redactor", "configure_redaction", "redact", "redact_all"]

MASK = "[redacted]"
_SHORTEST_VALUE = 8
"""Characters of a variable's value below which it is no secret, and might be any word."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH)S?(?:_|$)", re.IGNORECASE
)
_PLAIN = re.compile(r"(?:[0-9.,]+|true|false|none|null|\[redacted\].*)[)\]};,&]*\Z", re.IGNORECASE)
"""Values that are no secrets, whatever the name before them: ``max_tokens=2000``."""

_SHAPES = (
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\bAQ\.[0-9A-Za-z_-]{30,}",
    r"\bya29\.[0-9A-Za-z_-]{20,}",
    r"\b(?:sk|pk|rk)[-_][0-9A-Za-z_-]{16,}",
    r"\b(?:A3T|AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[0-9A-Za-z]{20,}",
    r"\bgithub_pat_[0-9A-Za-z_]{20,}",
    r"\bglpat-[0-9A-Za-z_-]{16,}",
    r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    r"\bhf_[0-9A-Za-z]{20,}",
    r"\bnpm_[0-9A-Za-z]{30,}",
    r"\bpypi-[0-9A-Za-z_-]{30,}",
    r"\beyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*",
)
_PRIVATE_KEY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)"
_URL = r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@\"'<>]*:)[^\s/\"'<>]+@"
_SCHEME = r"(?i)\b(bearer|basic)(\s+|%20)[0-9a-z._~+/=-]{8,}"
_NAME = (
    r"(?i)((?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|pwd|credential|private[_-]?key"
    r"|authorization)s?\\*[\"']?\s*(?:=>|[:=])\s*(?:(?:bearer|basic|token)\s+)?"
)
_QUOTED = _NAME + r"\\*[\"'])([^\"'\\]{4,})"
_NAMED = _NAME + r")([^\s\"'\\<>]{4,})"


class Redactor:
    """Masks secrets; made once, for what a process knows of its own secrets and its user's patterns."""

    def __init__(self, patterns: Iterable[str] = (), env: Mapping[str, str] | None = None) -> None:
        """Prepare the patterns. Raises ``ConfigurationError`` for one that RE2 cannot read."""
        values = sorted(_secrets_of(env or {}), key=len, reverse=True)
        whole = [_PRIVATE_KEY, *_SHAPES, *map(re2.escape, values), *(_checked(pattern) for pattern in patterns)]
        self._whole = _compiled("|".join(f"(?:{pattern})" for pattern in whole))
        parts = [*whole, _URL, _SCHEME, _QUOTED, _NAMED]
        self._url, self._scheme, self._quoted, self._named = map(_compiled, parts[-4:])
        self._any = _compiled("(?m)" + "|".join(f"(?:{pattern})" for pattern in parts))  # many texts, a line each
        self._cached = lru_cache(maxsize=4_096)(self._masked)

    def redact(self, text: str) -> str:
        """Return ``text`` with its secrets masked."""
        if len(text) < 64:  # names, ids and the like, again and again
            return self._cached(text)
        return self._masked(text)

    def finds(self, text: str) -> bool:
        """Tell whether there may be anything to mask in ``text``, or in one of its lines: much cheaper than to mask."""
        return self._any.search(text) is not None

    def _masked(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()  # RE2 takes no lone surrogates
        if not self.finds(text):
            return text
        text = self._whole.sub(MASK, text)
        text = self._url.sub(rf"\1{MASK}@", text)
        text = self._scheme.sub(_mask_scheme, text)
        text = self._quoted.sub(_mask_named, text)
        return str(self._named.sub(_mask_named, text))

    def redact_all(self, value: Any) -> Any:
        """Return ``value`` with every text in it masked, however deep in lists and objects."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {key: self._redact_item(key, inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.redact_all(inner) for inner in value]
            case _:
                return value

    def _redact_item(self, key: Any, value: Any) -> Any:
        """Mask the value of a key that is named like a secret: only together do they look like one."""
        is_secret = isinstance(value, str) and len(value) >= 4 and self._named.search(f"{key}=nameless")
        return MASK if is_secret and not _PLAIN.match(value) else self.redact_all(value)


def _mask_scheme(found: Any) -> str:
    """Mask what follows ``bearer`` if it is no word of a sentence."""
    word = found.group(0)[len(found.group(1)) + len(found.group(2)) :]
    is_word = word.rstrip(".").isalpha() and (word.islower() or word.istitle())
    return str(found.group(0)) if is_word else f"{found.group(1)}{found.group(2)}{MASK}"


def _mask_named(found: Any) -> str:
    return str(found.group(0)) if _PLAIN.match(found.group(2)) else f"{found.group(1)}{MASK}"


def _secrets_of(env: Mapping[str, str]) -> set[str]:
    """Return the values of variables that are named like secrets, and the passwords in addresses."""
    named = {value for name, value in env.items() if _SECRET_NAME.search(name)}
    headers = [value for name, value in env.items() if name.endswith("_HEADERS")]  # OTEL_EXPORTER_OTLP_HEADERS
    named |= {pair.partition("=")[2].strip() for value in headers for pair in value.split(",")}
    addressed = {found.group(1) for value in env.values() for found in re.finditer(r"://[^\s:/@]*:([^\s/]+)@", value)}
    return {value for value in named if len(value) >= _SHORTEST_VALUE and not _is_path(value)} | {
        value for value in addressed if len(value) >= 4
    }


def _is_path(value: str) -> bool:
    """``SSH_AUTH_SOCK`` and the like name files, which are no secrets."""
    return value.startswith(("/", "~", "./"))


def _checked(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except DefinitionError as error:
        raise ConfigurationError(f"setting 'ekiden.redact': {error}, or remove it") from None
    return pattern


def _compiled(pattern: str) -> Any:
    return raw_pattern(pattern, max_mem=64 << 20)


_default: list[Redactor] = []


def configure_redaction(patterns: Iterable[str]) -> Redactor:
    """Make the process's redactor know the user's patterns and the process's environment; return it."""
    _default[:] = [Redactor(patterns, os.environ)]
    return _default[0]


def redact(text: str) -> str:
    """Return ``text`` with its secrets masked, by the process's redactor."""
    return _redactor().redact(text)


def redact_all(value: Any) -> Any:
    """Return ``value`` with every text in it masked, by the process's redactor."""
    return _redactor().redact_all(value)


def _redactor() -> Redactor:
    return _default[0] if _default else configure_redaction(())
