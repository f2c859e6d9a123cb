"""Gemini as a ``ChatModel``: through AI Studio with a key, or through Vertex AI."""

from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.wire_model import DEFAULT_TIMEOUT_S, WireConnection, WireModel

__all__ = ["GeminiModel"]


class GeminiModel(WireModel):
    """A ``ChatModel`` of Google's. google-genai takes a second to import: the first call does that."""

    def __init__(self, access: GeminiAccess, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Use ``access``; a call that is not answered in full within ``timeout_s`` is given up."""

        def connect() -> WireConnection:
            from ekiden.shared.llm.genai.connection import Connection

            return Connection(access)

        super().__init__(connect, timeout_s=timeout_s, takes_schema=True)
