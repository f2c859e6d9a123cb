"""An estimate of how much a text is, in tokens, and how much a model reads of which nobody said so."""

from ekiden.shared.messages import Message

__all__ = ["DEFAULT_WINDOW", "tokens_in", "tokens_of"]

DEFAULT_WINDOW = 32_768
"""Of a model that nobody knows: what even small ones have."""
_BYTES_PER_TOKEN = 4


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, without the model's tokenizer.

    A token is taken to be four bytes of UTF-8, since tokenizers are made of byte pairs: four Latin letters, two
    Cyrillic ones, one and a third Chinese characters.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def tokens_in(message: Message) -> int:
    """Estimate the tokens of a message with all its parts as JSON: calls and signatures, but no data beside results."""
    return tokens_of(message.model_dump_json(exclude_none=True, exclude={"parts": {"__all__": {"data"}}}))
