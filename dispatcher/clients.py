"""A client as the settings say it."""

from ekiden.dispatcher.client import Client
from ekiden.shared.settings.model import Settings, load_settings

__all__ = ["client_of"]


def client_of(url: str, wait_replicas: int | None = None, settings: Settings | None = None) -> Client:
    """Return a client of the server at ``url`` that signs as the settings say, and waits for replicas, else as told.

    ``settings``: those in force, where they are loaded already.
    """
    settings = settings or load_settings()
    return Client(
        url,
        wait_replicas if wait_replicas is not None else settings.wait_replicas,
        settings.signing,
        settings.notes_folder,
    )
