"""Fields that nothing here acts on yet: what would guard, or decide who answers, is refused; the rest is told."""

from collections.abc import Iterator, Mapping
from typing import Any

from ekiden.shared.definitions.fields import folded, refuses
from ekiden.shared.definitions.problems import AgentFileError

__all__ = ["idle_fields", "refuse_unbuilt"]

_GUARDS = {
    "guardrails": "nothing would be checked. Remove it; the schema of 'output' is checked",
    "models": "no other model is tried. Remove it, and write 'model: ' with the first one",
    "graph": "no graph is run. Remove it, and write 'handoffs' or 'subagents'",
}
_REMOTE = ("agentcardurl", "agentcardjson")
_IDLE = {
    "hooks": "hooks do not run yet",
    "memory": "nothing is remembered yet beyond the session",
}


def refuse_unbuilt(fields: Mapping[str, Any]) -> None:
    """Raise ``AgentFileError`` where an agent would run without what its file says of it, or is no agent to run."""
    for key, value in fields.items():
        name = folded(key)
        if value and name in _GUARDS:
            raise AgentFileError(f"{key!r} is not enforced yet: {_GUARDS[name]}", field=key)
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
    for key, why in _IDLE.items():
        if fields.get(key):
            yield key, f"{key!r} has no effect: {why}"
    if isinstance(models := fields.get("model"), list) and len(models) > 1:
        yield "model", f"'model' is a list: only {models[0]!r} is used, the others are not tried"


def _is_true(value: Any) -> bool:
    return value is True or folded(value) in ("1", "true", "yes", "on")
