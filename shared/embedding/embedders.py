"""Which model makes vectors of notes: the encoder that ships with Ekiden, Gemini's, one of OpenAI's protocol."""

from collections.abc import Mapping

from ekiden.shared.embedding.encoder import SentenceEncoder
from ekiden.shared.embedding.remote import EmbeddingConnection, RemoteEmbedder
from ekiden.shared.embedding_models import OWN_ENCODER
from ekiden.shared.errors import MissingModel
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.settings.model import Settings

__all__ = ["Embedders"]

_TIMEOUT_S = 10.0
"""Of one try: somebody's job waits."""
_OPENAI = ("text-embedding-3-", "text-embedding-ada-")


class Embedders:
    """Makes the embedder of a model, one for the process. None is imported, or asked, before it is to encode."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._remote: dict[tuple[str, int | None], RemoteEmbedder] = {}

    def of(self, model: str = "", dimension: int | None = None) -> SentenceEncoder | RemoteEmbedder:
        """Return the embedder; without a model, that of the settings.

        A model that cannot be used here is told when it is to encode: ``MissingModel``.
        """
        if not model:
            model, dimension = self._settings.memory_embedding_model, self._settings.memory_dimension
        if model == OWN_ENCODER:
            return SentenceEncoder()
        if (model, dimension) not in self._remote:
            self._remote[model, dimension] = RemoteEmbedder(model, dimension, lambda: self._connection(model))
        return self._remote[model, dimension]

    def close(self) -> None:
        """Close the connections."""
        for one in self._remote.values():
            one.close()

    def _connection(self, model: str) -> EmbeddingConnection:
        if model.startswith("gemini-"):
            access = GeminiAccess.from_env(self._env, self._settings.gemini_base_url)
            from ekiden.shared.llm.genai.embeddings import GeminiEmbeddings

            return GeminiEmbeddings(access, _TIMEOUT_S)
        key_access = self._access(model).with_key(self._env)
        from ekiden.shared.llm.chat_completions.embeddings import OpenAIEmbeddings

        return OpenAIEmbeddings(key_access, _TIMEOUT_S)

    def _access(self, model: str) -> KeyAccess:
        """Return how the server of a model is reached."""
        name = model.partition("/")[0] if "/" in model else ""
        if (said := self._settings.providers.get(name)) is not None:
            own_key = "OPENAI_API_KEY" if said.base_url is None else None
            return KeyAccess(name, said.base_url, said.api_key_env or own_key)
        if model.startswith(_OPENAI):
            return KeyAccess("openai", None, "OPENAI_API_KEY")
        raise MissingModel(
            f"no provider here has an embedding model {model!r}: name one of Gemini's (gemini-embedding-001), of "
            "OpenAI's (text-embedding-3-small), or NAME/MODEL with a provider NAME of the settings (providers)"
        )
