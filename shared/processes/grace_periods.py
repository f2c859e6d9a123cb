"""How long everybody lets what they started end by itself. Each outer grace is longer than the inner ones in it.

    s      whose          lets what end
    1      TERM_S         a command: from SIGTERM to SIGKILL
    2.5    TOOL_S         a tool: the command and all that it started, by TERM_S and SIGKILL
    2      GIVE_BACK_S    a stopping leg: its commit, once its tools are gone
    5      JOB_S          a client: the job that it has cancelled, tools included
    5      ALONE_S        a leg in quarantine, in its process: TOOL_S and GIVE_BACK_S
    7      CANCEL_S       a pool: its cancelled legs, those in quarantine included
    10     DRAIN_S        a pool: its legs, before it cancels them (``ekiden.drain_s``)
    3      LEAVE_S        a pool: processes of the quarantine without a leg
    14     CLOSE_S        a pool: those, its heartbeat, telemetry and connections, once no leg runs
    31     STOP_S         a supervisor: a pool, by DRAIN_S, CANCEL_S and CLOSE_S
    40                    docker-compose.yml (stop_grace_period): a pool

Who is killed grants no grace. Tools and processes of the quarantine are killed with their worker, and a worker ends
``ORPHAN_S`` after the command that started it. Whatever becomes of a worker, its tools are killed when their lease is
over, and their leg goes on elsewhere ``TAKEOVER_S`` later: then nothing of the old run is alive.
"""

from ekiden.shared.processes.reaper import GONE_S, TERM_S

__all__ = [
    "ALONE_S",
    "CANCEL_S",
    "CLOSE_S",
    "DRAIN_S",
    "GIVE_BACK_S",
    "JOB_S",
    "LEAVE_S",
    "ORPHAN_S",
    "STOP_S",
    "TAKEOVER_S",
    "TERM_S",
    "TOOL_S",
    "stop_s",
]

TOOL_S = TERM_S + GONE_S + 0.5
GIVE_BACK_S = 2.0
JOB_S = 5.0
ALONE_S = 5.0
CANCEL_S = 7.0
DRAIN_S = 10.0
LEAVE_S = 3.0
CLOSE_S = 14.0
ORPHAN_S = 1.5
TAKEOVER_S = 1.0


def stop_s(drain_s: float) -> float:
    """Return how long a pool that is told to stop may take until it is killed."""
    return drain_s + CANCEL_S + CLOSE_S


STOP_S = stop_s(DRAIN_S)
