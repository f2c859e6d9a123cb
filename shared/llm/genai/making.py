"""How a google-genai client is made."""

from typing import Any

from google import genai
from google.genai import types

from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.genai.failures import translated
from ekiden.shared.llm.wire_clients import http_options, not_made, translating

__all__ = ["new_client"]


def new_client(access: GeminiAccess, **options: Any) -> genai.Client:
    """Return a client with this access and these ``HttpOptions``.

    Raises ``ModelError`` where this environment does not let one be made.
    """
    with translating(lambda error: translated(error, "*") or not_made("Gemini", error)):
        return genai.Client(
            vertexai=access.is_vertex,
            api_key=access.api_key,
            project=access.project,
            location=access.location,
            credentials=access.credentials,
            http_options=types.HttpOptions(base_url=access.base_url, **_http_of(access), **options),
        )


def _http_of(access: GeminiAccess) -> dict[str, Any]:
    """Return how it speaks HTTP, by httpx2 or, where that is installed, by aiohttp: each takes what it knows.

    On Vertex it may want a certificate of ours, which it looks for where it is given no context.
    """
    http = http_options() | {"allow_redirects": False}
    tls = http.pop("verify")
    del http["timeout"]  # none is its own default, and aiohttp is given it apart
    if not access.is_vertex:
        http |= {"verify": tls, "ssl": tls}  # the latter for aiohttp, and for web sockets, which it always prepares
    return {"client_args": http, "async_client_args": http}
