"""Why a server gave no result: for models, and for whoever looks after it. Secrets are masked."""

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.foreign_code import said_by
from ekiden.shared.redaction import redact

__all__ = ["CONNECT_S", "McpFailure", "NotReached", "StateRefused", "Unanswered", "cause_of", "innermost", "shown"]

CONNECT_S = 20.0
"""How long a server may take until its tools are listed."""
_MOST_CHARS = 600


class McpFailure(Exception):
    """A call that brought no result; the text is for the model."""


class Unanswered(McpFailure):
    """A call was made, and what it did is unknown."""


class StateRefused(McpFailure):
    """The server does not know what it has asked any more: nothing was carried out."""


class NotReached(McpFailure):
    """The server is not there: nothing was called."""


def cause_of(error: BaseException, words: str = "") -> str:
    """Say what went wrong, with what the server last said itself."""
    error = innermost(error)
    if isinstance(error, FileNotFoundError) and error.filename:
        text = f"there is no program {error.filename!r} here"
    elif isinstance(error, TimeoutError):
        text = f"it does not answer within {CONNECT_S:g} s"
    elif isinstance(error, ConfigurationError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {said_by(error)}"
    return shown(f"{text}; it said: {words}" if words else text)


def innermost(error: BaseException) -> BaseException:
    """Return what a group of errors is about."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def shown(text: str) -> str:
    """Return what may be shown of a server's words."""
    return redact(text)[:_MOST_CHARS]
