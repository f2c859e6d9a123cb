"""A client as the settings say it."""

from pathlib import Path

from ekiden.dispatcher.client import Client
from ekiden.shared.settings.model import load_settings

__all__ = ["client_of"]


def client_of(url: str, wait_replicas: int | None = None, data_dir: Path | None = None) -> Client:
    """Return a client of the server at ``url`` that signs as the settings say, and waits for replicas, else as told."""
    settings = load_settings(data_dir=data_dir)
    return Client(
        url,
        wait_replicas if wait_replicas is not None else settings.wait_replicas,
        settings.signing,
        settings.notes_folder,
    )
