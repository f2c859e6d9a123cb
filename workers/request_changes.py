"""What hooks have made of a request, as the journal keeps it: the part that is another one, and how it is put back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ekiden.shared.conversation import Turn
from ekiden.shared.hooks.asking import by_hooks
from ekiden.shared.hooks.replies import ToolChoice
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.messages import Message, ToolCall
from ekiden.workers.completion import CONTROLS

__all__ = ["changed_request", "changes_of", "choice_of", "why_not_chosen", "with_choice"]


def changes_of(built: ModelRequest, said: ModelRequest) -> dict[str, Any]:
    """Return what of ``built`` is another one in ``said``; of messages, those behind the last that both begin with."""
    changes: dict[str, Any] = {}
    if said.instructions != built.instructions:
        changes["instructions"] = said.instructions
    if said.temperature != built.temperature:
        changes["temperature"] = said.temperature
    if said.messages != built.messages:
        kept = next(
            (at for at, (one, other) in enumerate(zip(built.messages, said.messages, strict=False)) if one != other),
            min(len(built.messages), len(said.messages)),
        )
        behind = [message.model_dump(mode="json") for message in said.messages[kept:]]
        changes["messages"] = {"kept": kept, "behind": behind}
    return changes


def changed_request(built: ModelRequest, changes: Mapping[str, Any]) -> ModelRequest:
    """Return ``built`` as ``changes`` make it."""
    found = {name: changes[name] for name in ("instructions", "temperature") if name in changes}
    if (messages := changes.get("messages")) is not None:
        behind = tuple(Message.model_validate(one) for one in messages["behind"])
        found["messages"] = (*built.messages[: messages["kept"]], *behind)
    return replace(built, **found)


def choice_of(choice: ToolChoice) -> dict[str, Any]:
    """Return a choice of tools as JSON."""
    return {"mode": choice.mode, "names": None if choice.names is None else list(choice.names)}


def with_choice(built: ModelRequest, value: Mapping[str, Any]) -> ModelRequest:
    """Return ``built`` with the tools that hooks have chosen of its own; what ends the task always stays."""
    chosen = tuple(tool for tool in built.tools if _is_chosen(tool.name, value))
    forced = tuple(tool.name for tool in chosen) if value["mode"] == "ANY" else ()
    return replace(built, tools=chosen, forced_tools=forced)


def why_not_chosen(turn: Turn, call: ToolCall) -> str:
    """Say that hooks have not left the model a tool that it calls all the same; empty: they have."""
    if turn.chosen is None or _is_chosen(call.name, turn.chosen.value):
        return ""
    return f"Not executed: {by_hooks(turn.chosen.by)} left {call.name!r} out of this turn's tools."


def _is_chosen(name: str, value: Mapping[str, Any]) -> bool:
    names = [] if value["mode"] == "NONE" else value.get("names")
    return names is None or name in names or name in CONTROLS
