"""What the clients of all providers share, whatever their wire: one for each event loop, HTTP, failures as ours."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import httpx2

from ekiden.shared.errors import EkidenError, ModelError
from ekiden.shared.tls import tls_context

__all__ = ["ClientPerLoop", "http_options", "not_made", "translating"]


class _Client(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=_Client)


class ClientPerLoop(Generic[Client]):
    """A provider's client for each event loop: its connections cannot be used on another one."""

    def __init__(self, name: str, new: Callable[[dict[str, Any]], Client]) -> None:
        """``new`` makes one, with these options for its HTTP client. Raises ``ModelError``."""
        self._name, self._new = name, new
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        with translating(lambda error: not_made(name, error)):
            self._options = http_options()  # here, in a thread: a loop has leases to renew

    def of_this_loop(self) -> Client:
        """Return the client of the running loop. Raises ``ModelError``."""
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            with translating(lambda error: not_made(self._name, error)):
                client = self._clients[loop] = self._new(self._options)
        return client

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        if (client := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()


def http_options() -> dict[str, Any]:
    """Return how every provider is spoken to, as arguments of an HTTP client."""
    return {
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        "timeout": None,  # ours counts for the whole of a call
        "follow_redirects": False,  # what was said would go wherever the server says, and the key with it
        "verify": tls_context(),
    }


@contextmanager
def translating(translated: Callable[[Exception], EkidenError | None]) -> Iterator[None]:
    """Raise an error of the block as what ``translated`` makes of it; as it is, where that is None."""
    try:
        yield
    except Exception as error:
        if (failure := translated(error)) is None:
            raise
        raise failure from error


def not_made(name: str, error: Exception) -> ModelError:
    """Return what it means that a client cannot be made: it reads the environment, and tells of it in every way."""
    return ModelError(
        f"The client of {name} cannot be made in this environment ({type(error).__name__}): "
        "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE"
    )
