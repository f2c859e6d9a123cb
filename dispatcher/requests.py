"""What a request carries besides its prompt, checked before anything is stored."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shared.errors import InvalidRequest, UnknownAgent
from shared.nearness import nearest
from shared.storable import storable
from shared.variables import problem_of

__all__ = ["checked_folder", "checked_state", "require_agent"]


def checked_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return session variables as they can be stored. Raises ``InvalidRequest``."""
    for name, value in state.items():
        if (problem := problem_of(name, value)) is not None:
            raise InvalidRequest(problem)
    return dict(json.loads(storable(json.dumps(state, ensure_ascii=False))))


def checked_folder(cwd: str | Path | None) -> str | None:
    """Return the folder that a job is to work in, as it can be stored. Raises ``InvalidRequest``."""
    folder = str(cwd) if cwd else None
    if folder != storable(folder):
        raise InvalidRequest(f"the name of the folder {folder!r} is no UTF-8: rename it, or go through a link to it")
    return folder


def require_agent(agent: str, names: Iterable[str]) -> None:
    """Raise ``UnknownAgent`` unless ``agent`` is one of ``names``."""
    names = sorted(names)
    if agent in names:
        return
    near = nearest(agent, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise UnknownAgent(f"no agent is named {agent!r}: {hint}")
