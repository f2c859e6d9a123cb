"""The Celery app of the dispatcher pool: ``celery -A dispatcher.app worker`` serves the routing of new jobs."""

from shared.relay.celery_app import make_app

__all__ = ["app"]

app = make_app("dispatcher", "dispatcher.bootstrap:build")
