"""Every Redis key, and how long it lives. All of one session share the hash tag ``{<session>}``."""

from shared.ids import session_of

__all__ = [
    "CATALOG",
    "DEFINITION_TTL_S",
    "JOBS",
    "JOB_IDS",
    "LEASES",
    "POOLS",
    "POOL_TTL_S",
    "QUEUES",
    "REQUEST_TTL_S",
    "SESSION_TTL_S",
    "TIMERS",
    "cancel_channel",
    "catalog",
    "definition",
    "is_permanent",
    "job",
    "journal",
    "messages",
    "pool",
    "queued",
    "request",
    "session",
]

DAY_S = 86_400
SESSION_TTL_S = 30 * DAY_S
"""A session, its jobs, journals and messages, since last use."""
DEFINITION_TTL_S = 60 * DAY_S
"""A definition or catalog, since it was last published or pinned: longer than any session that pins it."""
REQUEST_TTL_S = DAY_S
"""How long a retried submit is recognised."""
POOL_TTL_S = 15

CATALOG = "ekiden:catalog"
"""The digest of the catalog in force."""
JOBS = "ekiden:jobs"
"""Sorted set: root jobs by the time of their submission, in ms."""
JOB_IDS = "ekiden:job_ids"
"""Sorted set with equal scores: the same ids in the order of the alphabet, to find a prefix."""
LEASES = "ekiden:leases"
"""Sorted set: running jobs by the end of their lease, in ms."""
TIMERS = "ekiden:timers"
"""Sorted set: suspended jobs by the time that wakes them, in ms."""
QUEUES = "ekiden:queues"
"""Set: every queue that a job was ever pushed to."""
POOLS = "ekiden:pools"
"""Sorted set: announced pool processes by the time of their last word, in ms."""

_PERMANENT = {CATALOG, JOBS, JOB_IDS, LEASES, TIMERS, QUEUES, POOLS}


def session(session_id: str) -> str:
    """Hash: the session's owner, times and job counter."""
    return f"ekiden:{{{session_id}}}:session"


def messages(session_id: str) -> str:
    """Stream: what the user and the agents said to each other, over all jobs."""
    return f"ekiden:{{{session_id}}}:messages"


def request(session_id: str, request_id: str) -> str:
    """String: the job number that a submit with this request id got."""
    return f"ekiden:{{{session_id}}}:request:{request_id}"


def job(job_id: str) -> str:
    """Hash: the job's state, the only thing that scripts decide by."""
    return f"ekiden:{{{session_of(job_id)}}}:job:{job_id}"


def journal(job_id: str) -> str:
    """Stream: the job's records, ids ``<seq>-0``."""
    return f"ekiden:{{{session_of(job_id)}}}:journal:{job_id}"


def cancel_channel() -> str:
    """Pub/sub channel: ids of jobs that somebody cancelled."""
    return "ekiden:cancelled"


def queued(queue: str) -> str:
    """Sorted set: jobs whose message is in ``queue``, by the time it was pushed, in ms."""
    return f"ekiden:queued:{queue}"


def definition(digest: str) -> str:
    """String: an agent definition's JSON."""
    return f"ekiden:definition:{digest}"


def catalog(digest: str) -> str:
    """String: a catalog's JSON map name -> definition digest."""
    return f"ekiden:catalog:{digest}"


def pool(pool_id: str) -> str:
    """String: what a pool process says of itself, JSON."""
    return f"ekiden:pool:{pool_id}"


def is_permanent(key: str) -> bool:
    """Tell whether ``key`` may be without a TTL: indexes, queues (Celery's and kombu's), the current catalog."""
    return (
        key in _PERMANENT
        or key.startswith(("ekiden:queued:", "ekiden.agent.", "_kombu."))
        or key in ("ekiden.dispatch", "ekiden.idle")
        or key.endswith(".reply.celery.pidbox")
    )
