"""What a job is about just now, in a few words: for people, and for the conditions of agent files."""

from collections.abc import Iterable

from ekiden.shared.records import Delegated, HandedOff, ModelReplied, Record, ToolFinished, ToolStarted

__all__ = ["last_action_of", "task_of"]

_STATUS = {
    "waiting": "pending",
    "queued": "pending",
    "running": "in_progress",
    "suspended": "waiting",
    "done": "completed",
    "unfinished": "unfinished",
    "failed": "failed",
    "dead": "failed",
    "cancelled": "cancelled",
}


def task_of(summary: str, status: str, agent: str, last_action: str) -> dict[str, str]:
    """Return the task fields of a session's state.

    Args:
        summary: What the user wants.
        status: The job's (``JobStatus``). Between two legs it is queued, and in progress all the same.
        agent: Who has the job.
        last_action: What ``last_action_of`` its records says.
    """
    word = "in_progress" if status == "queued" and last_action else _STATUS[status]
    return {"current_task": summary, "task_status": word, "current_agent": agent, "last_action": last_action}


def last_action_of(newest_first: Iterable[Record]) -> str:
    """Return the newest thing that was done, such as ``tool_call: bash``; empty where nothing was done yet."""
    return next(filter(None, map(_action, newest_first)), "")


def _action(record: Record) -> str:
    match record:
        case ToolStarted(name=name):
            return f"tool_call: {name}"
        case ToolFinished(result=result):
            return f"tool_call: {result.name}"
        case Delegated(agent=agent):
            return f"delegation: {agent}"
        case HandedOff(kind=kind, context=context):
            return f"{kind}: {context.to_agent}"
        case ModelReplied():
            return "llm_response"
        case _:
            return ""
