"""Where gemini-cli keeps what was said and what was traced: ``~/.gemini/contexts`` and ``~/.gemini/traces``."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.sessions import SessionMessage, SessionView

__all__ = ["context_file", "context_of", "iso", "trace_file", "write_json"]

_FOLDER = ".gemini"


def context_file(agent: str) -> Path:
    """Return the file of an agent's conversation. Raises ``InvalidRequest``: its name is none of a file."""
    if not agent or agent.startswith(".") or "/" in agent:
        raise InvalidRequest(f"{agent!r} cannot be the name of a file: leave out --gemini, and give -o FILE")
    return Path.home() / _FOLDER / "contexts" / f"{agent}.json"


def context_of(view: SessionView, said: Sequence[SessionMessage], agent: str) -> dict[str, Any]:
    """Return a session as gemini-cli's ``AgentContext``: who talked, what was said, when; times in ISO 8601."""
    history = [
        {"role": one.message.role, "agentName": one.agent, "content": one.message.text, "timestamp": iso(one.at_ms)}
        for one in said
    ]
    return {
        "agentName": agent,
        "conversationHistory": history,
        "metadata": {"session": view.id, "title": view.title, "user": view.user},
        "startedAt": iso(view.created_ms),
        "lastActiveAt": iso(view.used_ms),
    }


def trace_file(session: str, began_ms: int) -> Path:
    """Return the file of a session's trace, in the folder of the day it began, by local time."""
    day = datetime.fromtimestamp(began_ms / 1000).astimezone().date().isoformat()
    return Path.home() / _FOLDER / "traces" / day / f"session-{session}.json"


def write_json(path: Path, value: Any) -> None:
    """Write a file of the user's alone, in the place of an earlier one. Raises ``InvalidRequest``: it cannot be."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_atomically(path, text.encode(errors="replace"), 0o600)
    except OSError as error:
        raise InvalidRequest(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def iso(at_ms: int) -> str:
    """Return a time in ms since the epoch as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
