"""Names of sessions, jobs and legs. An id names its ancestors.

A session is 16 characters of base32 (80 random bits), a job ``<session>.<n>``, a delegated child ``<job>.<n>``.
"""

import base64
import hashlib
import os
import random
import re

__all__ = [
    "ancestors_of",
    "drawn_id",
    "first_job_for",
    "is_first_of_session",
    "is_job_id",
    "is_session_id",
    "new_session_id",
    "parent_of",
    "root_of",
    "session_id_for",
    "session_of",
    "task_id",
]

_SESSION = re.compile(r"[a-z2-7]{16}\Z")
_JOB = re.compile(r"[a-z2-7]{16}(\.[1-9][0-9]*)+\Z")


def new_session_id() -> str:
    """Draw 80 random bits as 16 lower-case base32 characters."""
    return base64.b32encode(os.urandom(10)).decode().lower()


def drawn_id() -> str:
    """Draw 64 bits as 16 hexadecimal characters: new wherever it is drawn, and no secret.

    By a generator of this process: to ask the system each time costs more than all else that a handoff needs.
    """
    return f"{random.getrandbits(64):016x}"


def session_id_for(request_id: str) -> str:
    """Return the session id of a request: the same one when its submission is repeated."""
    return base64.b32encode(hashlib.sha256(request_id.encode()).digest()[:10]).decode().lower()


def first_job_for(request_id: str) -> str:
    """Return the id of the first job of the session that ``session_id_for`` names."""
    return f"{session_id_for(request_id)}.1"


def is_session_id(text: str) -> bool:
    """Tell whether ``text`` has the form of a whole session id."""
    return _SESSION.match(text) is not None


def is_job_id(text: str) -> bool:
    """Tell whether ``text`` has the form of a whole job id."""
    return _JOB.match(text) is not None


def session_of(job: str) -> str:
    """Return the session that ``job`` belongs to."""
    return job.partition(".")[0]


def parent_of(job: str) -> str | None:
    """Return the job that delegated ``job``, or None for the root job of a request."""
    parent, _, _ = job.rpartition(".")
    return parent if "." in parent else None


def root_of(job: str) -> str:
    """Return the job of the user's request that ``job`` serves: itself, or the first above it."""
    return ".".join(job.split(".")[:2])


def is_first_of_session(job: str) -> bool:
    """Tell whether ``job`` is the first request of its session."""
    return job.split(".")[1:] == ["1"]


def ancestors_of(job: str) -> list[str]:
    """Return the jobs above ``job``, nearest first."""
    found = []
    while (parent := parent_of(job)) is not None:
        found.append(parent)
        job = parent
    return found


def task_id(job: str, leg: int, attempt: int) -> str:
    """Return the deterministic Celery task id of one attempt at a leg."""
    return f"{job}:{leg}:{attempt}"
