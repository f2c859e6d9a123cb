"""One openai client for each event loop, and the calls made through it."""

import os
from contextlib import AbstractContextManager, aclosing
from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from ekiden.shared.errors import RequestRefused
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.base import Delta, ModelRequest, OnDelta
from ekiden.shared.llm.chat_completions.contents import arguments_of
from ekiden.shared.llm.chat_completions.failures import (
    is_content_filter,
    is_refused_temperature,
    no_choice,
    no_completion,
    translated,
)
from ekiden.shared.llm.chat_completions.replies import ReplyReader
from ekiden.shared.llm.wire_clients import ClientPerLoop, translating

__all__ = ["Connection", "without_others"]

_NO_STREAM = ("text/html", "application/json")


class Connection:
    """Calls one server of Chat Completions. Serves any number of calls at once, on any event loop."""

    def __init__(self, access: KeyAccess) -> None:
        self._access = access
        self._clients = ClientPerLoop(access.name, self._new_client)
        self._headers = without_others(access)
        self._no_temperature: set[str] = set()
        """Models that have refused one."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ReplyReader:
        """Make one call: streamed if somebody listens, whole if not; the reading is the same."""
        if not any(message.text or message.calls for message in request.messages):
            raise RequestRefused(f"Nothing to ask model {request.model!r}: no message has any text")
        with self._failures(request.model):
            while True:
                with_temperature = request.model not in self._no_temperature
                try:
                    return await self._answer(request, on_delta, with_temperature=with_temperature)
                except openai.BadRequestError as error:
                    if is_content_filter(error):
                        return self._filtered(request)
                    if not (with_temperature and is_refused_temperature(error)):
                        raise
                self._no_temperature.add(request.model)

    async def model_names(self) -> list[str]:
        """Return the models that the server lists, as they are called here."""
        with self._failures("*"):
            models = self._clients.of_this_loop().models.list(extra_headers=self._headers)
            return sorted([f"{self._access.name}/{model.id}" async for model in models])

    async def aclose(self) -> None:
        """Close the connections of this loop."""
        await self._clients.aclose()

    async def _answer(self, request: ModelRequest, on_delta: OnDelta | None, *, with_temperature: bool) -> ReplyReader:
        reading = ReplyReader(request, self._access)
        arguments = arguments_of(
            request,
            self._access.bare(request.model),
            is_streamed=on_delta is not None,
            with_temperature=with_temperature,
        )
        answer: Any = await self._clients.of_this_loop().post(  # its chat.completions.create() walks all of it first,
            "/chat/completions",  # which takes 85 ms for 450 messages: as long as that no other leg would go on
            body=arguments,
            options={"headers": self._headers},
            cast_to=ChatCompletion,
            stream=on_delta is not None,
            stream_cls=openai.AsyncStream[ChatCompletionChunk],
        )
        if on_delta is None:
            if not isinstance(answer, ChatCompletion):  # the client takes any page with status 200 for an answer
                raise no_completion(self._access)
            if not getattr(answer, "choices", None):
                raise no_choice(self._access, answer.model_extra or {})
            reading.add_whole(answer)
            return reading
        await self._read_stream(answer, reading, on_delta)
        return reading

    async def _read_stream(self, stream: Any, reading: ReplyReader, on_delta: OnDelta) -> None:
        if not isinstance(stream, openai.AsyncStream):
            raise no_completion(self._access)
        if stream.response.headers.get("content-type", "").startswith(_NO_STREAM):
            await stream.close()
            raise no_completion(self._access)
        async with aclosing(stream.__aiter__()) as chunks:  # type: ignore[type-var]  # a generator
            async for chunk in chunks:
                for delta in reading.add_chunk(chunk):
                    on_delta(delta)
        if reading.is_textual_call:
            on_delta(Delta("", restart=True))

    def _filtered(self, request: ModelRequest) -> ReplyReader:
        refused = ReplyReader(request, self._access)
        refused.reason, refused.refusal = "content_filter", "blocked by the provider's content filter"
        return refused

    def _failures(self, model: str) -> AbstractContextManager[None]:
        return translating(lambda error: translated(error, self._access, model))

    def _new_client(self, http: dict[str, Any]) -> openai.AsyncOpenAI:
        """Make a client that retries nothing by itself."""
        return openai.AsyncOpenAI(
            api_key=self._access.key or "none",
            base_url=self._access.base_url,
            max_retries=0,
            timeout=None,
            http_client=openai.DefaultAsyncHttpxClient(**http),
        )


def without_others(access: KeyAccess) -> dict[str, Any]:
    """Return headers that keep from this server what the client finds in the environment, which is meant for OpenAI."""
    headers: dict[str, Any] = {}
    if access.base_url is not None:
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
        named = [name.strip() for name, colon, _ in (line.partition(":") for line in lines) if colon and name.strip()]
        headers |= dict.fromkeys([*named, "OpenAI-Organization", "OpenAI-Project"], openai.Omit())
    headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return headers | {"Authorization": f"Bearer {access.key}" if access.key else openai.Omit()}
