"""Which hosts of the web a tool may ask: those of the public internet, at the address that was looked at.

A name may mean another address at each question, so it is resolved once for each request, and the connection goes to
what was checked.
"""

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from ekiden.shared.errors import ToolError

__all__ = ["Target", "target_of"]

_PORTS = {"http": 80, "https": 443}
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: an IPv4 address in the last 32 bits."""
_LOCAL = (ipaddress.IPv6Network("64:ff9b:1::/48"), ipaddress.IPv6Network("3fff::/20"))
"""NAT64 of somebody's own, where the IPv4 address may stand elsewhere; examples. Not every Python knows them."""
_LONGEST_URL = 4_000


@dataclass(frozen=True)
class Target:
    """Where a URL leads."""

    url: str
    is_tls: bool
    host: str
    port: int
    path: str
    """With the query, encoded."""
    address: str
    """The IP address to connect to."""

    @property
    def host_header(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.is_tls else "http"] else f"{host}:{self.port}"


def target_of(url: str, allow_private: Collection[str]) -> Target:
    """Return where ``url`` leads, its name resolved.

    Args:
        url: Absolute.
        allow_private: ``HOST:PORT`` of those that may be asked though they are not of the public internet.

    Raises:
        ToolError: it is no such URL, its host is not found, or one of its addresses is not public.
    """
    shown = repr(url[:200])
    if len(url) > _LONGEST_URL or not url.isprintable() or " " in url:
        raise ToolError(f"{shown} is no URL: at most {_LONGEST_URL:,} characters, without spaces")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise ToolError(f"{shown} is no URL: {error}") from error
    if parts.scheme not in _PORTS or not host:
        raise ToolError(f"{shown} cannot be fetched: expected http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ToolError("a URL with a user or a password is not fetched: leave them out")
    address = _address(host, port, is_checked=f"{host}:{port}" not in allow_private)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=?~-._')}" if parts.query else ""
    return Target(url, parts.scheme == "https", host, port, path + query, address)


def _address(host: str, port: int, *, is_checked: bool) -> str:
    try:
        found = socket.getaddrinfo(host.encode("idna").decode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"the host {host[:200]!r} is not found: {error}") from error
    addresses = [str(place[0]) for *_, place in found]
    for one in addresses:
        if is_checked and not _is_public(one):
            raise ToolError(
                f"the host {host[:200]!r} is not of the public internet: only the setting "
                f"tools.web_fetch.allow_private lets a tool ask {host[:200]}:{port}"
            )
    return addresses[0]


def _is_public(text: str) -> bool:
    """Whether anybody on the internet can reach it: also through what stands for an IPv4 address in an IPv6 one."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # with a scope: of one link
        return False
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if address in _TRANSLATED:
            within = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if within is not None:
            return _is_public(str(within))
        if address.teredo is not None or address.is_site_local or any(address in network for network in _LOCAL):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
