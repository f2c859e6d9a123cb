"""Every Redis key, and how long it lives. All of one session share the hash tag ``{<session>}``."""

import hashlib
from typing import get_args

from ekiden.shared.ids import session_of
from ekiden.shared.outcomes import SuspendCause

__all__ = [
    "APPROVALS",
    "CATALOG",
    "CATALOG_TTL_S",
    "CAUSES",
    "CIRCUITS",
    "CIRCUITS_TTL_S",
    "CIRCUIT_LONGEST_S",
    "CLOCK",
    "DEADLINES",
    "DEAD_LETTERS",
    "DEAD_LETTERS_TTL_S",
    "ENDED",
    "INTAKE",
    "INTAKE_TAKEN",
    "INTAKE_TEXTS",
    "JOBS",
    "JOB_IDS",
    "KEEP_EVERY_S",
    "KINDS",
    "LEASES",
    "LESSONS",
    "LESSONS_TTL_S",
    "LIMITED",
    "LIMIT_TTL_S",
    "LISTING_TTL_S",
    "LIVE_TTL_S",
    "LOOKING",
    "MAX_DEAD_LETTERS",
    "MAX_USAGE_FIELDS",
    "MAX_USAGE_ROWS",
    "MISPLACED",
    "POOLS",
    "POOL_TTL_S",
    "PUBLICATIONS",
    "PUBLICATIONS_KEPT",
    "QUEUES",
    "REPLY_TTL_S",
    "REQUEST_TTL_S",
    "SESSIONS",
    "SESSION_TTL_S",
    "STOPPED",
    "TIMERS",
    "UNVOUCHED",
    "USAGE_TTL_S",
    "WRITTEN",
    "approvals",
    "blobs",
    "catalog",
    "inbox",
    "is_permanent",
    "job",
    "journal",
    "limit",
    "listing",
    "live",
    "memory",
    "memory_order",
    "messages",
    "older_messages",
    "pending",
    "pool",
    "queued",
    "reply",
    "request",
    "session",
    "state",
    "suspended",
    "usage",
    "usage_of",
]

DAY_S = 86_400
SESSION_TTL_S = 30 * DAY_S
"""A session, its jobs, journals and messages, since last use."""
KEEP_EVERY_S = 3_600
"""How often a job's keys are given their time to live again: to do so at every step would cost more than the step."""
CATALOG_TTL_S = 60 * DAY_S
"""A catalog, since any pool last looked after those of the last publications, or it was published.

Jobs that are pinned to one keep it for as long as they need it.
"""
PUBLICATIONS_KEPT = 20
"""How many publications are remembered, and their catalogs kept to be rolled back to."""
REQUEST_TTL_S = DAY_S
"""How long a retried submit is recognised."""
REPLY_TTL_S = 3_600
"""How long a dispatcher's answer to a request in the intake is kept for whoever asked."""
DEAD_LETTERS_TTL_S = 30 * DAY_S
"""What came through a queue and was no message of ours, since the last of it."""
MAX_DEAD_LETTERS = 1_000
CIRCUIT_LONGEST_S = 900
"""For how long a circuit opens at most."""
CIRCUITS_TTL_S = DAY_S
"""Which models have failed, since the last failure of one."""
LIVE_TTL_S = 300
"""What models write while they write it, since its last piece: once an answer is whole its record has it."""
LIMIT_TTL_S = DAY_S
"""What is used of a limit of a model, since the last call; where jobs wait for it, ``SESSION_TTL_S``."""
LISTING_TTL_S = 300
"""What an MCP server offers: a worker that is asked for it later asks the server again."""
LESSONS_TTL_S = 90 * DAY_S
"""What was learned from requests, since the last change."""
USAGE_TTL_S = 62 * DAY_S
"""What models were used for on one day."""
MAX_USAGE_ROWS = 20_000
"""Of a day, by agent, user and model; what is more counts as of others."""
MAX_USAGE_FIELDS = 100_000
"""Of a day, with those that sum up each user: users beyond share one."""
POOL_TTL_S = 15
ENDED = "ekiden:ended:"
"""Before a job's id: pub/sub channel of its end, for whoever waits for it."""
STOPPED = "ekiden:stopped"
"""Pub/sub channel: ids of running jobs that are to stop."""
WRITTEN = "ekiden:written"
"""Pub/sub channel that nobody hears: what is published goes to the replicas."""

APPROVALS = "ekiden:approvals"
"""Sorted set: approvals that wait for somebody (``<job>:<n>``), by the time that they expire, in ms of relay time."""
CATALOG = "ekiden:catalog"
"""The digest of the catalog in force."""
PUBLICATIONS = "ekiden:publications"
"""Stream: which catalogs came into force last, how, and who did it."""
DEAD_LETTERS = "ekiden:dead_letters"
"""Stream, capped: what was found in a queue and could not be read, and why."""
MISPLACED = "ekiden:misplaced:"
"""Before a queue's name: what stood under it and was no list."""
DEADLINES = "ekiden:deadlines"
"""Sorted set: unfinished jobs by the time that ends them, in ms of relay time."""
INTAKE = "ekiden:intake"
"""List: requests of those who may not run scripts, the oldest last. All that a submitter may write; only those who
serve it read it, and all else that begins with ``i``, ``m`` or ``r`` (``acl.py``)."""
INTAKE_TAKEN = "ekiden:intake_taken"
"""Sorted set: requests that a dispatcher has taken (their SHA-1), by when others may have them, in ms of relay time."""
INTAKE_TEXTS = "ekiden:intake_texts"
"""Hash: the same requests themselves."""
JOBS = "ekiden:jobs"
"""Sorted set: root jobs by the time of their submission, in ms of relay time."""
JOB_IDS = "ekiden:job_ids"
"""Sorted set with equal scores: the same ids in the order of the alphabet, to find a prefix."""
LEASES = "ekiden:leases"
"""Sorted set: running jobs by the end of their lease, in ms of relay time."""
LESSONS = "ekiden:lessons"
"""Hash: what was learned from requests, JSON by id; ``version``, which is new with every change."""
LIMITED = "ekiden:limited"
"""Set: limits of models (their keys) that jobs wait for."""
LOOKING = "ekiden:looking"
"""String: somebody has looked just now what new jobs teach."""
SESSIONS = "ekiden:sessions"
"""Sorted set: sessions by the time of their last use, in ms of relay time."""
TIMERS = "ekiden:timers"
"""Sorted set: suspended jobs by the time that wakes them, in ms of relay time."""
QUEUES = "ekiden:queues"
"""Set: every queue that a job was ever pushed to."""
CAUSES = (*get_args(SuspendCause), "quarantine")
"""Why a job can be suspended; ``quarantine``: it is to run alone, and waits until there is room for that."""
POOLS = "ekiden:pools"
"""Sorted set: announced pool processes by the time of their last word, in ms of the server's own time."""
CIRCUITS = "ekiden:circuits"
"""Hash: models that have failed and not answered since, by what they and their account are known by."""
CLOCK = "ekiden:clock"
"""Hash: what makes relay time of the server's time (``clock.py``): ``offset_ms``; ``followed_ms``, up to when pools
have followed it; ``jumps``, how often the server's clock has jumped; ``jump_ms`` and ``jumped_ms``, how far and when.
"""
UNVOUCHED = "ekiden:unvouched"
"""Sorted set: entries of indexes (``<index> <id>``), written at a relay time, in ms, that no pool had followed then."""

KINDS = {
    **dict.fromkeys(
        (APPROVALS, DEADLINES, INTAKE_TAKEN, JOBS, JOB_IDS, LEASES, SESSIONS, TIMERS, POOLS, UNVOUCHED), "zset"
    ),
    **dict.fromkeys((PUBLICATIONS, DEAD_LETTERS), "stream"),
    **dict.fromkeys((CIRCUITS, CLOCK, INTAKE_TEXTS, LESSONS), "hash"),
    CATALOG: "string",
    INTAKE: "list",
    **dict.fromkeys((LIMITED, QUEUES), "set"),
}
"""What each key that is no session's own holds, as TYPE says it; those of ``queued`` and ``suspended`` beside them."""


def session(session_id: str) -> str:
    """Hash: the session's owner, times and job counter."""
    return f"ekiden:{{{session_id}}}:session"


def messages(session_id: str) -> str:
    """Sorted set: what the user and the agents said to each other, over all jobs: ``<number> <ms> <job> <JSON>``.

    No stream: an empty one takes 4 KB.
    """
    return f"ekiden:{{{session_id}}}:said"


def older_messages(session_id: str) -> str:
    """Stream: what versions before wrote of it."""
    return f"ekiden:{{{session_id}}}:messages"


def request(session_id: str, request_id: str) -> str:
    """String: the job number that a submit with this request id got."""
    return f"ekiden:{{{session_id}}}:request:{request_id}"


def reply(ticket: str) -> str:
    """String: what a dispatcher answered to the request with this ticket, JSON; who may push cannot list tickets."""
    return f"ekiden:reply:{ticket}"


def job(job_id: str) -> str:
    """Hash: the job's state, the only thing that scripts decide by."""
    return f"ekiden:{{{session_of(job_id)}}}:job:{job_id}"


def journal(job_id: str) -> str:
    """Stream: the job's records, ids ``<seq>-0``."""
    return f"ekiden:{{{session_of(job_id)}}}:journal:{job_id}"


def blobs(job_id: str) -> str:
    """Hash: the job's large values by their SHA-256."""
    return f"ekiden:{{{session_of(job_id)}}}:blobs:{job_id}"


def pending(job_id: str) -> str:
    """Set: the child jobs that a suspended job waits for."""
    return f"ekiden:{{{session_of(job_id)}}}:pending:{job_id}"


def approvals(job_id: str) -> str:
    """Hash: what a job has asked persons, by its number: ``<n>`` the record, ``<n>:…`` what became of it."""
    return f"ekiden:{{{session_of(job_id)}}}:approvals:{job_id}"


def state(session_id: str) -> str:
    """Hash: the session's variables, their values as JSON."""
    return f"ekiden:{{{session_id}}}:state"


def live(job_id: str) -> str:
    """Stream, capped: what models write while they write it."""
    return f"ekiden:{{{session_of(job_id)}}}:live:{job_id}"


def inbox(session_id: str) -> str:
    """List: the session's waiting jobs, next first."""
    return f"ekiden:{{{session_id}}}:inbox"


def queued(queue: str) -> str:
    """Sorted set: jobs whose message is in ``queue``, by the time it was pushed, in ms of relay time."""
    return f"ekiden:queued:{queue}"


def suspended(cause: str) -> str:
    """Sorted set: jobs that are suspended for this cause, by the time since when, in ms of relay time."""
    return f"ekiden:suspended:{cause}"


def catalog(digest: str) -> str:
    """Hash: ``manifest``, the catalog's JSON map name -> digest, and every definition's JSON by its digest.

    One key, so that one TTL keeps all that a job is pinned to.
    """
    return f"ekiden:catalog:{digest}"


def pool(pool_id: str) -> str:
    """String: what a pool process says of itself, JSON."""
    return f"ekiden:pool:{pool_id}"


def limit(name: str) -> str:
    """Hash: a limit of a model and one key, and what is used of it in the last minute.

    Beside it ``:held``, hash of reservations by job; ``:slots``, sorted set of their jobs by when it is looked whether
    they are alive; ``:waiting``, sorted set of jobs by their turn; ``:asked``, hash of their tokens; ``:users``, sorted
    set of users by their last turn.
    """
    return f"ekiden:limit:{name}"


def listing(server: str) -> str:
    """String: what an MCP server offers, JSON, by the digest of the entry that names it.

    By ``offered:`` and a digest of the JSON: what servers offered an agent, for jobs that are run again.
    """
    return f"ekiden:mcp:{server}"


def usage(day: str) -> str:
    r"""Hash: what models were used for on a day, in days since 1970 (UTC).

    Each ``<calls> <input tokens> <output tokens> <millionths of a US dollar> <calls of unknown price>``.

    By ``row\0<agent>\0<user>\0<model>``, and all of a user's by ``usage_of``;
    by ``(others)`` what finds a full day.
    """
    return f"ekiden:usage:{day}"


def budget(period: str) -> str:
    """Hash: what counts for users' budgets of a period beside their use of today, by ``usage_of``.

    ``<seconds>:<number>``: an hour, by its number since 1970; a week or a month, by its first day's. Each ``<day up to
    which it counts> <tokens> <millionths of a US dollar>``, of an hour what is to be taken off. It lives twice as long.
    """
    return f"ekiden:budget:{period}"


def usage_of(user: str) -> str:
    r"""Return a user's field of a day or period, ``user\0<SHA-1>``: budgets stay when a name is forgotten."""
    return f"user\0{hashlib.sha1(user.encode(errors='surrogatepass'), usedforsecurity=False).hexdigest()}"


def memory(namespace: str) -> str:
    """Hash: the notes of a namespace by id; ``version``, the newest one's, and ``sum``, of the versions of all.

    As ``memory_order``, nothing that a submitter or an observer may read.
    """
    return f"ekiden:memory:{namespace}"


def memory_order(namespace: str) -> str:
    """Sorted set: the ids of these notes by version."""
    return f"ekiden:memory_order:{namespace}"


def is_permanent(key: str) -> bool:
    """Tell whether ``key`` may be without a TTL: indexes, queues (Celery's, kombu's), notes, which catalog counts."""
    kept = ("ekiden:queued:", "ekiden:suspended:", memory(""), memory_order(""), "ekiden.agent.", "_kombu.")
    return (
        (key in KINDS and key not in (CIRCUITS, DEAD_LETTERS, LESSONS))
        or key.startswith(kept)
        or key in ("ekiden.dispatch", "ekiden.idle")
        or key.endswith(".reply.celery.pidbox")
    )
