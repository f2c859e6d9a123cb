"""Masks secrets in all text that leaves the program: traces, logs, exported journals.

What is masked: keys and tokens by their shape, what follows ``password=`` and its like, bearer tokens, passwords in
URLs, private keys, the values of this process's own variables that are named like secrets, those of its settings, and
the user's patterns.
Everything is RE2: linear in the text, whatever somebody sends.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from ekiden.shared.errors import ConfigurationError, DefinitionError
from ekiden.shared.patterns import compile_pattern, escaped, raw_pattern
from ekiden.shared.terminal_text import one_line

__all__ = ["MASK", "Redactor", "configure_redaction", "preview", "redact", "redact_all"]

MASK = "[redacted]"
_SHORTEST_VALUE = 8
"""Characters of a variable's value below which it is no secret, and might be any word."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API|PG|MYSQL_)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|PW|CREDENTIAL|AUTH|DSN|COOKIE)S?(?:_|$)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"(?:[0-9.,]+|true|false|none|null|\[redacted\].*)[)\]};,&:]*\Z", re.IGNORECASE)
"""Values that are no secrets, whatever the name before them: ``max_tokens=2000``."""

_LISTED = re.compile(r"(?:^|[\s,])[\w-]{1,32}:([^\s,]{16,})")
"""The secrets alone in a value such as ``k2:SECRET,k1:SECRET``."""

_SHAPES = (
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\bAQ\.[0-9A-Za-z_-]{30,}",
    r"\bya29\.[0-9A-Za-z_-]{20,}",
    r"\b(?:A3T|AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[0-9A-Za-z]{20,}",
    r"\bgithub_pat_[0-9A-Za-z_]{20,}",
    r"\bgl(?:pat|dt|rt|ft|cbt|ptt|soat|agent)-[0-9A-Za-z_-]{16,}",
    r"\b(?:xox[abeoprs]|xapp)-[0-9A-Za-z-]{10,}",
    r"\bhf_[0-9A-Za-z]{20,}",
    r"\bnpm_[0-9A-Za-z]{30,}",
    r"\bpypi-[0-9A-Za-z_-]{30,}",
    r"\beyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*",
    r"\bGOCSPX-[0-9A-Za-z_-]{20,}",  # Google's OAuth clients
    r"\b[0-9A-Za-z_.~-]{3}[0-9]Q~[0-9A-Za-z_.~-]{31,34}",  # Azure's applications
    r"\bLTAI[0-9A-Za-z]{12,}",  # Alibaba Cloud
    r"\bAKID[0-9A-Za-z]{28,}",  # Tencent Cloud
    r"\b(?:gsk_|r8_|xai-|pplx-|nvapi-)[0-9A-Za-z_-]{20,}",  # Groq, Replicate, xAI, Perplexity, NVIDIA
    r"\b(?:whsec|dckr_pat|dckr_oat|rubygems|shp(?:at|ca|pa|ss)|do[opr]_v1|lin_api|glsa|glc|sbp)_[0-9A-Za-z_=+/-]{20,}",
    r"\b(?:SK|dapi)[0-9a-f]{32}\b",  # Twilio, Databricks
    r"\bSG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}",  # SendGrid
    r"\bhv[bsr]\.[0-9A-Za-z_-]{20,}",  # Vault
    r"\bNRAK-[0-9A-Z]{20,}",  # New Relic
    r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}",
    r"\b[0-9]{8,10}:AA[0-9A-Za-z_-]{33}",  # Telegram
    r"\bhooks\.slack\.com/(?:services|workflows|triggers)/[0-9A-Za-z_/-]{8,}",
    r"\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/[0-9A-Za-z_-]{16,}",
)
_PREFIXED = r"(?:^|[^0-9A-Za-z_-])((?:sk|pk|rk)[-_][0-9A-Za-z_-]{16,})"
"""OpenAI's, Anthropic's, Stripe's and others', if there is a digit in it: else it is any name."""
_PRIVATE_KEY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)"
_URL = r"(?i)\b([a-z][a-z0-9+.-]*://)(?:([^\s:/@\"'<>]*:)[^\s/\"'<>]+|[0-9a-z_.~-]{16,})@"
"""With a password, or with a token as its user, as Sentry's addresses have it."""
_SCHEME = r"(?i)\b(bearer|basic)(\s+|%20)[0-9a-z._~+/=-]{8,}"
_NAME = (
    r"(?i)((?:(?:api|access|account|private|signing|encryption|secret)[_-]?key|secret|token|passw(?:or)?d|passphrase|passcode"
    r"|[_-]pass|[\"']pass|[_-]pw|pwd|credential|authorization|[?&;]sig"
    r"|密码|口令|密钥|秘钥|私钥|令牌|凭证|凭据)s?\\*[\"'”’]?\s*"
    r"(?:=>|[:=：＝])\s*(?:(?:bearer|basic|token|apikey|api-key|key|digest|negotiate)\s+)?"
)
_QUOTED = _NAME + r"\\*[\"'“‘])([^\"'\\”’]{4,})"
_NAMED = _NAME + r")([^\s\"'\\<>“”，。；、）]{4,})"
_SAID = r"((?:密码|口令|密钥|秘钥|私钥|令牌|凭证|凭据)(?:是|为|改为|改成)\s*[\"'“‘「]?)([!#-&(-~]{4,})"
_COOKIE = r"(?i)(\b(?:set-)?cookie\\*[\"']?\s*:\s*\\*[\"']?)([^\r\n\"'\\]{4,})"
_BARE = r"(?im)((?:^|\\n)[ \t-]*pass\s*:\s*\\*[\"']?|\bpass\s*=\s*\\*[\"']?)([^\s\"'\\,;<>]{4,})"
"""By itself only where a line begins with it, or it is set: else it is any word."""
_ARGUMENT = (
    r"(?i)(\s--?[a-z0-9_-]*(?:password|passwd|passphrase|token|secret|api-?key)\s+[\"']?"
    r"|\bsshpass\s+-p\s*[\"']?|\s(?:-u|--user)[\s=]+[\"']?[^\s:\"'/]+:"
    r"|\bmachine\s+\S+\s+(?:(?:login|account)\s+\S+\s+)*password\s+)([^\s\"'-][^\s\"']{3,})"
)
"""What a command line or a ``.netrc`` says without an equals sign."""


class Redactor:
    """Masks secrets; made once, for what a process knows of its own secrets and its user's patterns."""

    def __init__(
        self, patterns: Iterable[str] = (), env: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
    ) -> None:
        """Prepare the patterns. Raises ``ConfigurationError`` for one that RE2 cannot read."""
        values = sorted(_secrets_of(env or {}) | {one for one in secrets if len(one) >= 4}, key=len, reverse=True)
        whole = [_PRIVATE_KEY, *_SHAPES, *map(escaped, values), *(_checked(pattern) for pattern in patterns)]
        self._whole = _compiled("|".join(f"(?:{pattern})" for pattern in whole))
        self._partly = [(_compiled(pattern), mask) for pattern, mask in _PARTLY]
        self._named = _compiled(_NAMED)
        parts = [*whole, *(pattern for pattern, _ in _PARTLY)]
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
        for pattern, mask in self._partly:
            text = pattern.sub(mask, text)
        return str(text)

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
        may_be = isinstance(value, str | list | tuple) and self._named.search(f'"{key}"=nameless')
        return self._masked_value(value) if may_be else self.redact_all(value)

    def _masked_value(self, value: Any) -> Any:
        match value:
            case str() if len(value) >= 4 and not _PLAIN.match(value):
                return MASK
            case list() | tuple():
                return [self._masked_value(inner) for inner in value]
            case _:
                return self.redact_all(value)


def _mask_prefixed(found: Any) -> str:
    said = str(found.group(0))
    return said.replace(found.group(1), MASK) if any(map(str.isdigit, found.group(1))) else said


def _mask_url(found: Any) -> str:
    return f"{found.group(1)}{found.group(2) or ''}{MASK}@"


def _mask_scheme(found: Any) -> str:
    """Mask what follows ``bearer`` if it is no word of a sentence."""
    word = found.group(0)[len(found.group(1)) + len(found.group(2)) :]
    is_word = word.rstrip(".").isalpha() and (word.islower() or word.istitle())
    return str(found.group(0)) if is_word else f"{found.group(1)}{found.group(2)}{MASK}"


def _mask_named(found: Any) -> str:
    return str(found.group(0)) if _PLAIN.match(found.group(2)) else f"{found.group(1)}{MASK}"


_PARTLY: tuple[tuple[str, Callable[[Any], str]], ...] = (
    (_PREFIXED, _mask_prefixed),
    (_URL, _mask_url),
    (_SCHEME, _mask_scheme),
    (_QUOTED, _mask_named),
    (_NAMED, _mask_named),
    (_SAID, _mask_named),
    (_BARE, _mask_named),
    (_COOKIE, _mask_named),
    (_ARGUMENT, _mask_named),
)
"""Patterns of which a part stays, each with what makes the text that takes its place."""


def _secrets_of(env: Mapping[str, str]) -> set[str]:
    """Return the values of variables that are named like secrets, and the passwords in addresses."""
    named = {value for name, value in env.items() if _SECRET_NAME.search(name)}
    named |= {secret for value in named for secret in _LISTED.findall(value)}
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


def configure_redaction(patterns: Iterable[str], secrets: Iterable[str] = ()) -> Redactor:
    """Make the process's redactor know the user's patterns, its environment and what else is secret; return it."""
    _default[:] = [Redactor(patterns, os.environ, secrets)]
    return _default[0]


def redact(text: str) -> str:
    """Return ``text`` with its secrets masked, by the process's redactor."""
    return _redactor().redact(text)


def redact_all(value: Any) -> Any:
    """Return ``value`` with every text in it masked, by the process's redactor."""
    return _redactor().redact_all(value)


def _redactor() -> Redactor:
    return _default[0] if _default else configure_redaction(())


def preview(text: str, longest: int, dots: str = "...") -> str:
    """Return the beginning of what models and tools said, on one line: a terminal may be a log that others read.

    What looks like a secret is masked before the line is cut: half a secret looks like none.
    """
    return one_line(redact(text[: 100 * longest]), longest, dots)
