"""The Celery app of the dispatcher pool: ``celery -A ekiden.dispatcher.app worker`` serves the routing of new jobs."""

from ekiden.shared.relay.celery_app import make_app

__all__ = ["app"]

app = make_app("dispatcher", "ekiden.dispatcher.bootstrap:build")
