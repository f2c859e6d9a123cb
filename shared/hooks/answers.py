"""What commands that are hooks write: JSON, in gemini-cli's words, with Claude Code's where they are its own.

A word that is not understood is a fault of the hook: it may have meant to forbid something.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ekiden.shared.hook_entries import HookEntry
from ekiden.shared.hooks.events import Event
from ekiden.shared.hooks.questions import said_in
from ekiden.shared.hooks.replies import MODES, HookReply, ToolChoice
from ekiden.shared.hooks.tool_words import our_args, our_name, their_args
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import Message, Part, TextPart
from ekiden.shared.storable import read_json

__all__ = ["UnreadableReply", "blocked", "said"]

_TOP = frozenset(
    {"continue", "stopReason", "decision", "reason", "systemMessage", "suppressOutput", "hookSpecificOutput"}
)
_SPECIFIC = {
    "BeforeTool": {"permissionDecision", "permissionDecisionReason", "tool_input", "updatedInput", "additionalContext"},
    "AfterTool": {"additionalContext", "tool_response", "updatedMCPToolOutput"},
    "BeforeToolSelection": {"toolConfig"},
    "BeforeModel": {"llm_request", "llm_response"},
    "AfterModel": {"llm_response"},
    "AfterAgent": {"answer"},
    "BeforeHandoff": {"permissionDecision", "permissionDecisionReason", "tool_input", "updatedInput"},
    "BeforeRoute": {"agent"},
    "SessionStart": {"additionalContext"},
    "BeforeAgent": {"additionalContext"},
    "AfterHandoff": {"additionalContext"},
    "PreCompress": {"additionalContext"},
}
"""What ``hookSpecificOutput`` may hold."""


class UnreadableReply(ValueError):
    """A command wrote what is no reply to the event."""


def said(text: str, event: Event, entry: HookEntry) -> HookReply | None:
    """Return what the command means that wrote ``text``. Raises ``UnreadableReply``."""
    text = text.removeprefix("\ufeff").strip()
    if not text:
        return None
    if not text.startswith("{") and entry.form != "ours":  # as both programs take it
        is_told = entry.form == "claude" and event.name in ("SessionStart", "BeforeAgent")
        return HookReply(context=text) if is_told else HookReply(note=text)
    try:
        word = read_json(text, lenient=True)  # as both programs take it: a denial counts, however it is written
    except ValueError as error:
        raise UnreadableReply(f"it wrote no JSON: {error}") from None
    if not isinstance(word, dict):
        raise UnreadableReply(f"it wrote JSON of the type {type(word).__name__!r}, where an object is expected")
    _refuse_unknown(word, _TOP, "its JSON")
    specific = word.get("hookSpecificOutput") or {}
    if not isinstance(specific, dict):
        raise UnreadableReply("'hookSpecificOutput' is no object")
    _refuse_unknown(
        specific, _SPECIFIC.get(event.name, set()) | {"hookEventName"}, f"'hookSpecificOutput' at {event.name}"
    )
    try:
        return _with_decision(word, specific, event, entry, _changes(specific, event, entry))
    except UnreadableReply:
        raise
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        raise UnreadableReply(f"its JSON is none that can be meant: {type(error).__name__}: {error}") from None


def blocked(why: str, event: Event, entry: HookEntry) -> HookReply:
    """Return what the command means that ended with 2 and wrote ``why`` to its standard error."""
    return _refusal(why.strip() or f"{entry.name or entry.command} ended with 2", event, entry)


def _refusal(why: str, event: Event, entry: HookEntry) -> HookReply:
    """Return a word against what happens; of a tool that has run, Claude Code only tells the model."""
    if entry.form == "claude" and event.name == "AfterTool":
        return HookReply(context=why)
    return HookReply(block=why)


def _with_decision(
    word: Mapping[str, Any], specific: Mapping[str, Any], event: Event, entry: HookEntry, reply: HookReply
) -> HookReply:
    """Join what a command decides to what it changes."""
    decision = _strictest(specific.get("permissionDecision"), word.get("decision"))
    reason = specific.get("permissionDecisionReason") or word.get("reason") or ""
    if decision in ("deny", "block"):
        refusal = _refusal(reason or f"{entry.name or entry.command} decided {decision!r}", event, entry)
        told = "\n\n".join(filter(None, (reply.context, refusal.context)))
        reply = replace(reply, block=refusal.block, context=told)
    elif decision == "ask":
        reply = replace(reply, ask=reason or f"{entry.name or entry.command} wants a person asked")
    elif decision not in (None, "", "allow", "approve"):
        raise UnreadableReply(f"its decision is {decision!r:.60}: there are allow, ask, deny and block")
    if not isinstance(word.get("continue", True), bool):
        raise UnreadableReply(f"'continue' is {word['continue']!r:.60}: it must be true or false")
    if word.get("continue") is False:
        reply = replace(reply, stop=word.get("stopReason") or reason or f"{entry.name or entry.command} says so")
    return replace(reply, note=word.get("systemMessage") or "")


def _strictest(*decisions: object) -> object:
    """Return the decision that allows least: a command may speak two programs' words at once."""
    for decision in ("deny", "block", "ask"):
        if decision in decisions:
            return decision
    return next((one for one in decisions if one not in (None, "", "allow", "approve")), None)


def _changes(specific: Mapping[str, Any], event: Event, entry: HookEntry) -> HookReply:
    """Return what a command has changed."""
    change = _CHANGES.get(event.name)
    changed = change(specific, event, entry.form) if change is not None else {}
    return HookReply(context=specific.get("additionalContext") or "", **changed)


def _changed_call(specific: Mapping[str, Any], event: Any, form: str) -> dict[str, Any]:
    if (whole := specific.get("updatedInput")) is not None:
        return {"args": our_args(whole, event.call, form)}
    if (merged := specific.get("tool_input")) is not None:
        return {"args": our_args(their_args(event.call, form) | merged, event.call, form)}
    return {}


def _changed_result(specific: Mapping[str, Any], event: Any, form: str) -> dict[str, Any]:
    changed = specific.get("tool_response", specific.get("updatedMCPToolOutput"))
    return {"result": changed if isinstance(changed, str | None) else str(changed["llmContent"])}


def _chosen(specific: Mapping[str, Any], event: Any, form: str) -> dict[str, Any]:
    if (config := specific.get("toolConfig")) is None:
        return {}
    said, names = config.get("mode") or "AUTO", config.get("allowedFunctionNames")
    mode = next((mode for mode in MODES if mode == said), None)
    if mode is None:
        raise UnreadableReply(f"the mode of its toolConfig is {said!r:.60}: there are {', '.join(MODES)}")
    return {"tools": ToolChoice(mode, None if names is None else tuple(our_name(name, form) for name in names))}


def _changed_asking(specific: Mapping[str, Any], event: Any, form: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if (response := specific.get("llm_response")) is not None:
        changes["reply"] = ModelReply(message=_answer(_text(response), ()))
    if (request := specific.get("llm_request")) is not None:
        changes["request"] = _changed_request(event.request, request)
    return changes


def _changed_reply(specific: Mapping[str, Any], event: Any, form: str) -> dict[str, Any]:
    if (response := specific.get("llm_response")) is None:
        return {}
    kept = [part for part in event.reply.message.parts if not isinstance(part, TextPart) or part.thought]
    return {"reply": event.reply.model_copy(update={"message": _answer(_text(response), kept)})}


def _named(key: str) -> Callable[[Mapping[str, Any], Any, str], dict[str, Any]]:
    return lambda specific, _event, _form: {key: specific.get(key)}


_CHANGES: dict[str, Callable[[Mapping[str, Any], Any, str], dict[str, Any]]] = {
    "BeforeTool": _changed_call,
    "BeforeHandoff": _changed_call,
    "AfterTool": _changed_result,
    "BeforeToolSelection": _chosen,
    "BeforeModel": _changed_asking,
    "AfterModel": _changed_reply,
    "AfterAgent": _named("answer"),
    "BeforeRoute": _named("agent"),
}


def _changed_request(built: ModelRequest, said: Mapping[str, Any]) -> ModelRequest:
    """Return a request with the texts that a command has put in the place of others; calls and results stay."""
    config = said.get("config") or {}
    changed = replace(built, temperature=config.get("temperature", built.temperature))
    if (messages := said.get("messages")) is None:
        return changed
    texts = [one["content"] for one in messages]
    if len(texts) != len(built.messages) + 1 or not all(isinstance(text, str) for text in texts):
        raise UnreadableReply(
            f"its llm_request must have as many messages as it read, each with text, not {len(texts)}"
        )
    pairs = zip(built.messages, texts[1:], strict=True)
    return replace(changed, instructions=texts[0], messages=tuple(_with_text(message, text) for message, text in pairs))


def _with_text(message: Message, text: str) -> Message:
    if text == said_in(message):
        return message
    if message.results:
        if len(message.results) > 1:
            raise UnreadableReply("it changed a message with several results: nobody can tell which of them")
        return message.model_copy(
            update={"parts": (message.results[0].model_copy(update={"content": text, "own": None}),)}
        )
    kept = tuple(part for part in message.parts if not isinstance(part, TextPart) or part.thought)
    return message.model_copy(update={"parts": (TextPart(text=text), *kept)})


def _text(response: Mapping[str, Any]) -> str:
    if (candidates := response.get("candidates")) is None:
        return str(response["text"])
    parts = candidates[0]["content"]["parts"]
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)


def _answer(text: str, kept: list[Part] | tuple[Part, ...]) -> Message:
    return Message(role="model", parts=(*([TextPart(text=text)] if text else []), *kept))


def _refuse_unknown(word: Mapping[str, Any], known: frozenset[str] | set[str], where: str) -> None:
    if unknown := sorted(word.keys() - known):
        raise UnreadableReply(f"{unknown[0]!r:.60} of {where} is not understood: there are {', '.join(sorted(known))}")
