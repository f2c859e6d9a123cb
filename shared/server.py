"""Which server this process talks to."""

from ekiden.shared.errors import ConfigurationError, StoreUnavailable
from ekiden.shared.settings.model import Settings

__all__ = ["require_no_waiting", "server_url"]


def server_url(settings: Settings) -> str:
    """Return the configured address, else that of the embedded server of the ``ekiden up`` that runs for ``data_dir``.

    A server that only answers questions has no pools: its unfinished jobs wait for their user's word. One whose address
    we return stays for as long as this process does: nobody closes our attachment but the kernel.
    Raises ``StoreUnavailable`` when there is neither: what to do is in the message.
    """
    if settings.redis_url:
        return settings.redis_url
    from ekiden.shared.embedded import attach, is_served

    if is_served(settings.data_dir):
        require_no_waiting(settings)
        return attach(settings.data_dir).url
    raise StoreUnavailable("no Redis server: set EKIDEN_REDIS_URL, or run `ekiden up` in this folder first")


def require_no_waiting(settings: Settings) -> None:
    """Raise ``ConfigurationError`` if replicas are to be waited for: the embedded server has none."""
    if settings.wait_replicas:
        raise ConfigurationError(
            f"ekiden.wait_replicas is {settings.wait_replicas}, but the embedded server has no replicas: set it to 0, "
            "or EKIDEN_REDIS_URL to the address of a server that has some"
        )
