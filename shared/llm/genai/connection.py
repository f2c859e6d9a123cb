"""One google-genai client and the calls made through it."""

from contextlib import AbstractContextManager, aclosing

from google.genai import types

from ekiden.shared.errors import RequestRefused
from ekiden.shared.llm.base import ModelRequest, OnDelta
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.genai.contents import body_of
from ekiden.shared.llm.genai.failures import translated
from ekiden.shared.llm.genai.making import new_client
from ekiden.shared.llm.genai.replies import ReplyReader
from ekiden.shared.llm.schema import WireNames
from ekiden.shared.llm.wire_clients import translating

__all__ = ["Connection"]

_API_VERSION = "v1beta"
"""Of AI Studio: thought signatures and JSON Schemas are not in v1. Vertex has the client's own default."""

_CONTENTS = "-"
"""In place of the conversation, which goes as it is."""


class Connection:
    """Calls Gemini. Serves any number of calls at once, on any event loop: the client keeps a pool for each.

    The client is kept here for as long as the connection lives: it closes itself when it is collected.
    """

    def __init__(self, access: GeminiAccess) -> None:
        self._client = new_client(
            access,
            api_version=None if access.is_vertex else _API_VERSION,
            retry_options=types.HttpRetryOptions(attempts=1),  # ours honours RetryInfo; unset, aiohttp retries hidden
        )

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None) -> ReplyReader:
        """Make one call: streamed if somebody listens, whole if not; the reading is the same."""
        taken = {call.id for message in request.messages for call in message.calls}
        reading = ReplyReader(WireNames(tool.name for tool in request.tools), taken, request.prompt_id)
        with _failures(request.model):
            try:
                if on_delta is None:
                    await self._read_whole(request, reading)
                else:
                    await self._read_stream(request, reading, on_delta)
            except RecursionError:  # Python's reader of JSON gives up where lists and objects nest too deep
                reading.reason, reading.message = "MALFORMED_FUNCTION_CALL", "its arguments nest too deep"
        return reading

    async def model_names(self) -> list[str]:
        """Return the models that this key may ask for text, by name."""
        with _failures("*"):
            models = [model async for model in await self._client.aio.models.list()]
        names = [(model.name or "").rpartition("/")[2] for model in models if _answers(model)]
        return sorted(name for name in names if name)

    async def aclose(self) -> None:
        """Close the connections; no call is possible any more."""
        await self._client.aio.aclose()

    async def _read_whole(self, request: ModelRequest, reading: ReplyReader) -> None:
        whole = await self._client.aio.models.generate_content(
            model=request.model, contents=_CONTENTS, config=_config(request)
        )
        for _ in reading.add(whole):
            pass

    async def _read_stream(self, request: ModelRequest, reading: ReplyReader, on_delta: OnDelta) -> None:
        stream = await self._client.aio.models.generate_content_stream(
            model=request.model, contents=_CONTENTS, config=_config(request)
        )
        async with aclosing(stream) as chunks:  # type: ignore[type-var]  # a generator, declared as an iterator
            async for chunk in chunks:
                for delta in reading.add(chunk):
                    on_delta(delta)


def _config(request: ModelRequest) -> types.GenerateContentConfigDict:
    """Return the request as a body of its own, and switch off what the client would do by itself.

    Given the conversation, it made models of it, then dictionaries: 180 ms for 450 messages, in which no leg goes on.

    Raises ``RequestRefused`` for an empty one, as Gemini would.
    """
    body = body_of(request)
    if not body["contents"]:
        raise RequestRefused(f"Nothing to ask model {request.model!r}: no message has any text")
    return {
        "http_options": {"extra_body": body},
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
    }


def _failures(model: str) -> AbstractContextManager[None]:
    return translating(lambda error: translated(error, model))


def _answers(model: types.Model) -> bool:
    return model.supported_actions is None or "generateContent" in model.supported_actions
