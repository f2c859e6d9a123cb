"""Sets of words, written as one text."""

__all__ = ["words"]


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``, which blanks keep apart."""
    return frozenset(text.split())
