"""What ``celery -A workers.app worker`` loads."""

from shared.relay.celery_app import make_app

__all__ = ["app"]

app = make_app("worker", "workers.bootstrap:build")
