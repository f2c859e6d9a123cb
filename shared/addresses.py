"""Addresses of Redis servers: the one place that says which are understood, and what of one may be shown.

Readers of addresses disagree on those that are not written by the rules: an unencoded ``/`` in a password makes a part
of it a host, which is then printed and looked up. So whatever two readers may understand differently is refused, before
anybody connects; and no text here repeats any of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

__all__ = ["host_and_port", "problem_of", "proxy_problem_of", "web_problem_of", "without_password"]

_EXPECTED = "expected redis://[USER:PASSWORD@]HOST:PORT/DB, rediss:// for TLS, or unix:///PATH?db=DB"

_SCHEMES = ("redis", "rediss", "unix")
_FOREIGN = ("amqp", "amqps", "http", "https", "redis+socket", "sentinel", "sqs", "valkey", "valkeys")
"""Schemes that may be repeated in a message: what else stands there may be anything, also a secret."""
_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_BOOLEAN = r"(?i)true|false|yes|no|1|0"
_VALUES = {
    "db": r"[0-9]{1,9}",
    "username": r"(?s).+",
    "password": r"(?s).+",
    "socket_connect_timeout": r"[0-9]+(\.[0-9]+)?",
    "socket_timeout": r"[0-9]+(\.[0-9]+)?",
    "ssl_cert_reqs": "none|optional|required",
    "ssl_check_hostname": _BOOLEAN,
    "ssl_password": r"(?s).+",
    **dict.fromkeys(_FILES, r"(?s).+"),
}
"""The options that both of our connections honour -> what their values look like."""
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_HOST = r"[\w.-]*|[0-9a-f:.]+(%[\w.-]+)?"
_ENCODED = (
    "it holds a character that must be written encoded (in a name or password / is %2F, ? is %3F, # is %23, @ is %40, "
    "[ is %5B)"
)
_PORT = "its port is no number from 1 to 65535"


def problem_of(url: str) -> str | None:
    """Say why ``url`` is no address of a server that Ekiden can use, and what is; None when it is one."""
    why = _why_not(url)
    return why and f"this is no Redis address: {why}; {_EXPECTED}"


def web_problem_of(url: str) -> str | None:
    """Say why ``url`` is no address of a web service; None when it is one. One that holds a secret is none."""
    if "@" in url:
        return "it names a user, or a password, which would be shown: leave that out (an @ in its path is %40)"
    return None if re.match(r"https?://[^/\s]", url) else f"{url!r} must begin with http:// or https:// and a host"


def proxy_problem_of(url: str) -> str | None:
    """Say why ``url`` is no address of a proxy, with nothing of it; None when it is one, or a host with a port."""
    whole = url if "://" in url else f"http://{url}"
    if whole.partition("://")[0].lower() not in _PROXY_SCHEMES:
        return f"it begins with none of {', '.join(f'{scheme}://' for scheme in _PROXY_SCHEMES)}"
    return None if host_and_port(whole, 0) else _ENCODED


def host_and_port(url: str, port: int) -> tuple[str, int] | None:
    """Return whom a web address leads to, ``port`` where it names none; None where readers of it may disagree."""
    try:
        parts = urlsplit(url)
        found = parts.hostname, parts.port or port
    except ValueError:
        return None
    is_plain = "#" not in url and "@" not in parts.path + parts.query and parts.netloc.count("@") <= 1
    host, port = found
    return (host, port) if host and is_plain and re.fullmatch(_HOST, host) else None


def without_password(url: str) -> str:
    """Return an address as it may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _why_not(url: str) -> str | None:
    if not url:
        return "it is empty (without any, the embedded server is used)"
    if any(character.isspace() or not character.isprintable() for character in url):
        return "it holds a space, a line end or another character that must be written encoded (a space is %20)"
    scheme, mark, _ = url.partition("://")
    if not mark or scheme not in _SCHEMES:
        return f"{scheme}:// is not spoken here" if scheme in _FOREIGN else "it does not begin as an address does"
    try:
        parts = urlsplit(url)
    except ValueError:
        return _ENCODED
    if "#" in url or "@" in parts.path + parts.query or parts.netloc.count("@") > 1:
        return _ENCODED
    return next(_problems_in(parts), None)


def _problems_in(parts: SplitResult) -> Iterator[str]:
    if not _has_port(parts):
        yield _PORT
    if not re.fullmatch(_HOST, parts.hostname or ""):
        yield _ENCODED
    if parts.scheme == "unix":
        if parts.hostname or parts.port or not parts.path.strip("/"):
            yield "a socket's path is absolute, behind three slashes: unix:///PATH"
    elif not re.fullmatch(r"/?|/[0-9]{1,9}", parts.path):
        yield "the number of its database is none: 0 to 15 on most servers"
    yield from _problems_of_options(parts)


def _has_port(parts: SplitResult) -> bool:
    """Tell whether its port is one, or left out."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _problems_of_options(parts: SplitResult) -> Iterator[str]:
    options = parse_qsl(parts.query, keep_blank_values=True)
    said = [name for name in ("username", "password") if getattr(parts, name)]
    said += ["db"] if parts.scheme != "unix" and parts.path.strip("/") else []
    for name, value in options:
        if name not in _VALUES:
            yield f"it has an option that is unknown; known are {', '.join(sorted(_VALUES))}"
        elif name in said:
            yield f"it says its {name} twice"
        elif name.startswith("ssl_") and parts.scheme != "rediss":
            yield f"its option {name} is for TLS: write rediss:// in front, or leave it out"
        elif not re.fullmatch(_VALUES[name], value):
            yield f"its option {name} has a wrong value"
        elif name in _FILES and not Path(value).exists():
            yield f"its option {name} names a file that does not exist"
        said.append(name)
