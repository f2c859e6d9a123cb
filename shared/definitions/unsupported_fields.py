"""Fields that nothing here acts on yet: what would guard, or decide who answers, is refused; the rest is told."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ekiden.shared.definitions.fields import folded, refuses
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.errors import DefinitionError
from ekiden.shared.hook_entries import entries_in

__all__ = ["idle_fields", "refuse_unbuilt"]

_LONG_TERM = "'memory: {long_term: true}' for an agent that remembers"
_SESSION = "'memory: {session: [current_task]}', with names of variables, for what it reads and writes in a session"
_KEYS = {"longterm": _LONG_TERM, "session": _SESSION}
"""Keys of ``memory`` of which somebody has made its value, and what is meant."""
_REMOTE = ("agentcardurl", "agentcardjson")


def refuse_unbuilt(fields: Mapping[str, Any]) -> None:
    """Raise ``AgentFileError`` where an agent would run without what its file says of it, or is no agent to run."""
    for key, value in fields.items():
        name = folded(key)
        if (name == "kind" and folded(value) == "remote") or (value and name in _REMOTE):
            raise AgentFileError(
                f"{key!r} is {value!r:.80}: agents on other servers (A2A) are not spoken to yet, and no model here "
                "answers in their name. Remove the file, or let its name begin with '_'",
                field=key,
            )
        if (name in ("disable", "disabled") and _is_true(value)) or (name == "enabled" and refuses(value)):
            raise AgentFileError(
                f"{key!r} is {value!r}: the agent is switched off. Remove the line to use it", field=key
            )


def idle_fields(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that has no effect, and a warning."""
    if isinstance(memory := fields.get("memory"), str) and memory.strip():
        yield "memory", _of_memory(memory)
    with suppress(DefinitionError):  # which is said where it is read
        for hook in entries_in(fields.get("hooks") or {}, in_agent_file=True)[1]:
            yield "hooks", f"'hooks': {hook.why}, so that it has no effect"


def _of_memory(said: str) -> str:
    """Say what is to be written where ``memory`` is a word."""
    if meant := _KEYS.get(folded(said)):
        return f"'memory' is {said!r:.60}, which is a key of it and no value, and has no effect. Write {meant}"
    return f"'memory' is {said!r:.60}, which means nothing here and has no effect. Write {_LONG_TERM}"


def _is_true(value: Any) -> bool:
    return value is True or folded(value) in ("1", "true", "yes", "on")
