"""How a google-genai client is made."""

from google import genai
from google.genai import types

from ekiden.shared.errors import ModelError
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.genai.failures import translated

__all__ = ["new_client"]


def new_client(access: GeminiAccess, options: types.HttpOptions) -> genai.Client:
    """Return a client with this access. Raises ``ModelError`` where this environment does not let one be made."""
    try:
        return genai.Client(
            vertexai=access.is_vertex,
            api_key=access.api_key,
            project=access.project,
            location=access.location,
            credentials=access.credentials,
            http_options=options,
        )
    except Exception as error:  # it reads the environment, and tells of it in every way that there is
        raise translated(error, "*") or ModelError(
            f"Gemini's client cannot be made in this environment ({type(error).__name__}): check HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE"
        ) from error
