"""One anthropic client for each event loop, and the calls made through it."""

from collections import defaultdict
from contextlib import AbstractContextManager, aclosing
from typing import Any

import anthropic

from ekiden.shared.errors import RequestRefused
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import ModelRequest, OnDelta
from ekiden.shared.llm.messages_api.contents import arguments_of
from ekiden.shared.llm.messages_api.failures import refused_option, translated
from ekiden.shared.llm.messages_api.replies import ReplyReader
from ekiden.shared.llm.wire_clients import ClientPerLoop, translating

__all__ = ["Connection"]


class Connection:
    """Calls Anthropic. Serves any number of calls at once, on any event loop."""

    def __init__(self, access: KeyAccess) -> None:
        self._access = access
        self._clients = ClientPerLoop("Anthropic", self._new_client)
        self._refused: dict[str, set[str]] = defaultdict(set)
        """Options that models have refused."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ReplyReader:
        """Make one call: the stream is read whether or not somebody listens."""
        if not any(message.text.strip() or message.calls for message in request.messages):
            raise RequestRefused(f"Nothing to ask model {request.model!r}: no message has any text")
        with self._failures(request.model):
            while True:
                without = frozenset(self._refused[request.model])
                try:
                    return await self._answer(request, on_delta, without)
                except anthropic.BadRequestError as error:
                    if not (option := refused_option(error)) or option in without:
                        raise
                self._refused[request.model].add(option)

    async def model_names(self) -> list[str]:
        """Return the models of the key."""
        with self._failures("*"):
            return sorted([model.id async for model in self._clients.of_this_loop().models.list()])

    async def aclose(self) -> None:
        """Close the connections of this loop."""
        await self._clients.aclose()

    async def _answer(self, request: ModelRequest, on_delta: OnDelta | None, without: frozenset[str]) -> ReplyReader:
        reading = ReplyReader(request)
        arguments = arguments_of(request, without=without)
        stream: Any = await self._clients.of_this_loop().messages.create(**arguments)
        async with aclosing(stream.__aiter__()) as events:
            async for event in events:
                for delta in reading.add(event):
                    if on_delta is not None:
                        on_delta(delta)
        return reading

    def _failures(self, model: str) -> AbstractContextManager[None]:
        return translating(lambda error: translated(error, self._access, model))

    def _new_client(self, http: dict[str, Any]) -> anthropic.AsyncAnthropic:
        """Make a client that retries nothing by itself."""
        return anthropic.AsyncAnthropic(
            api_key=self._access.key,
            base_url=self._access.base_url,
            max_retries=0,
            timeout=None,
            http_client=anthropic.DefaultAsyncHttpxClient(**http),
        )
