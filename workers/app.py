"""What ``celery -A ekiden.workers.app worker`` loads."""

from ekiden.shared.relay.celery_app import make_app

__all__ = ["app"]

app = make_app("worker", "ekiden.workers.bootstrap:build")
