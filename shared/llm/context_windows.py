"""How much a model can read, and an estimate of how much a text is, both in tokens."""

from fnmatch import fnmatchcase

from ekiden.shared.messages import Message

__all__ = ["DEFAULT_WINDOW", "tokens_in", "tokens_of", "window_of"]

DEFAULT_WINDOW = 32_768
"""Of a model that nobody knows: what even small ones have."""
_BYTES_PER_TOKEN = 4
_WINDOWS = (
    ("gemini-*", 1_048_576),
    ("scripted*", 1_048_576),  # it has none
)


def window_of(model_name: str) -> int:
    """Return how many tokens the model reads at once."""
    return next((window for pattern, window in _WINDOWS if fnmatchcase(model_name, pattern)), DEFAULT_WINDOW)


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, without the model's tokenizer.

    A token is taken to be four bytes of UTF-8, since tokenizers are made of byte pairs: four Latin letters, two
    Cyrillic ones, one and a third Chinese characters.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def tokens_in(message: Message) -> int:
    """Estimate the tokens of a message with all its parts, calls and signatures as JSON."""
    return tokens_of(message.model_dump_json(exclude_none=True))
