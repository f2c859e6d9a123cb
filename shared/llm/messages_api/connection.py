"""One anthropic client for each event loop, and the calls made through it."""

import asyncio
from collections import defaultdict
from contextlib import aclosing
from typing import Any
from weakref import WeakKeyDictionary

import anthropic
import httpx2

from ekiden.shared.errors import ModelError, RequestRefused
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import ModelRequest, OnDelta
from ekiden.shared.llm.messages_api.contents import arguments_of
from ekiden.shared.llm.messages_api.failures import refused_option, translated
from ekiden.shared.llm.messages_api.replies import ReplyReader

__all__ = ["Connection"]


class Connection:
    """Calls Anthropic. Serves any number of calls at once, on any event loop."""

    def __init__(self, access: KeyAccess) -> None:
        self._access = access
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, anthropic.AsyncAnthropic] = WeakKeyDictionary()
        self._refused: dict[str, set[str]] = defaultdict(set)
        """Options that models have refused."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ReplyReader:
        """Make one call: the stream is read whether or not somebody listens."""
        if not any(message.text.strip() or message.calls for message in request.messages):
            raise RequestRefused(f"Nothing to ask model {request.model!r}: no message has any text")
        try:
            return await self._answer(request, on_delta)
        except Exception as error:
            if (option := refused_option(error)) and option not in self._refused[request.model]:
                self._refused[request.model].add(option)
                return await self.ask(request, on_delta)
            if (failure := translated(error, self._access, request.model)) is None:
                raise
            raise failure from error

    async def model_names(self) -> list[str]:
        """Return the models of the key."""
        try:
            return sorted([model.id async for model in self._client().models.list()])
        except Exception as error:
            if (failure := translated(error, self._access, "*")) is None:
                raise
            raise failure from error

    async def aclose(self) -> None:
        """Close the connections of this loop."""
        if (client := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()

    async def _answer(self, request: ModelRequest, on_delta: OnDelta | None) -> ReplyReader:
        reading = ReplyReader(request)
        arguments = arguments_of(request, without=self._refused[request.model])
        stream: Any = await self._client().messages.create(**arguments)
        async with aclosing(stream.__aiter__()) as events:
            async for event in events:
                for delta in reading.add(event):
                    if on_delta is not None:
                        on_delta(delta)
        return reading

    def _client(self) -> anthropic.AsyncAnthropic:
        """Return the client of this loop: its connections cannot be used on another one. It retries nothing itself."""
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            try:
                client = self._clients[loop] = anthropic.AsyncAnthropic(
                    api_key=self._access.key,
                    base_url=self._access.base_url,
                    max_retries=0,
                    timeout=None,  # ours counts for the whole of a call
                    http_client=anthropic.DefaultAsyncHttpxClient(
                        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
                        timeout=None,
                        follow_redirects=False,  # what was said would go wherever the server says
                    ),
                )
            except Exception as error:  # it reads the environment, and tells of it in every way that there is
                raise ModelError(
                    f"Anthropic's client cannot be made in this environment ({type(error).__name__}): check "
                    "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE"
                ) from error
        return client
