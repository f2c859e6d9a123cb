"""Copies what one server holds of ours to another that holds nothing."""

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.stores.driver import BlockingClient, exceptions

__all__ = ["command_names", "copy_keys"]

_OURS = "ekiden[:.]*"
"""Our keys, and our queues."""


def command_names(url: str) -> list[str]:
    """Return the names of all commands that the server at ``url`` knows, sub-commands left out."""
    with BlockingClient.from_url(url, protocol=2) as client:
        return [name.decode() for name in client.command_list() if b"|" not in name]


def copy_keys(source: str, target: str) -> None:
    """Copy our keys from one server's address to another's, with their times to live: all, or none.

    Raises:
        ConfigurationError: One of the servers fails, or does not take a value.
    """
    with BlockingClient.from_url(source, protocol=2) as theirs, BlockingClient.from_url(target) as ours:
        try:
            for key in theirs.scan_iter(match=_OURS, count=1_000):
                left_ms = theirs.pttl(key)
                if (value := theirs.dump(key)) is not None:
                    ours.restore(key, max(left_ms, 0), value)
        except exceptions.RedisError as error:
            ours.flushall()  # there was nothing before
            raise ConfigurationError(f"the data cannot be copied, and nothing was: {error}") from error
