"""Celery's own environment variables: none changes what a pool of ours does, which goes by Ekiden's settings alone."""

from collections.abc import Iterator, Mapping

from ekiden.shared.errors import ConfigurationError

__all__ = ["refuse_what_breaks", "unused_in"]

_UNUSED = (
    "CELERY_BROKER_READ_URL",
    "CELERY_BROKER_URL",
    "CELERY_BROKER_WRITE_URL",
    "CELERY_CONFIG_MODULE",
    "CELERY_LOADER",
    "CELERY_RESULT_BACKEND",
)
"""Other apps' of Celery in the same container go by them, and ours would."""
_BREAKING = ("CELERY_BENCH", "C_BENCH")
"""Celery 5.7 acknowledges no message while it counts them: a worker is soon full."""
_NUMBERS: Mapping[str, type[int] | type[float]] = {
    "AUTOSCALE_KEEPALIVE": float,
    "CELERY_BENCH_EVERY": int,
    "CELERY_WORKER_REVOKES_MAX": int,
    "CELERY_WORKER_REVOKE_EXPIRES": float,
    "CELERY_WORKER_SUCCESSFUL_EXPIRES": float,
    "CELERY_WORKER_SUCCESSFUL_MAX": int,
    "C_BENCH_EVERY": int,
    "PICKLE_PROTOCOL": int,
}
"""Read when Celery is imported, which fails where they are none."""


def unused_in(env: Mapping[str, str]) -> list[str]:
    """Return the variables in ``env`` that other apps of Celery's obey and a pool of ours does not."""
    return [name for name in _UNUSED if env.get(name)]


def refuse_what_breaks(env: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError``, which names it, for a variable with which no worker of Celery's can work."""
    for name, why in _broken_by(env):
        raise ConfigurationError(f"the environment variable {name} keeps Celery from working ({why}): unset it")


def _broken_by(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in _BREAKING:
        if env.get(name):
            yield name, "it counts messages and acknowledges none"
    for name, kind in _NUMBERS.items():
        try:
            kind(env.get(name, "0"))
        except ValueError:
            yield name, "it is no number"
