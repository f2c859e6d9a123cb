"""A span as people read it: a line that says what took how long, and what is known of it below."""

import json
from collections.abc import Mapping
from typing import Any

from ekiden.shared.redaction import preview
from ekiden.shared.tracing import semconv

__all__ = ["trace_lines"]

MAX_WIDTH = 160
"""Characters of a text that was said."""
_CALLS = ("chat", "generate_content", "text_completion")
"""The conventions' names of a call of a model."""


def trace_lines(name: str, attributes: Mapping[str, Any], seconds: float, *, arrow: str = "→") -> list[str]:
    """Return the lines of an ended span; none of messages on their way, which nobody waits for by name.

    ``[Trace] llm (debugger) - 1.2s``, and below it ``Model``, ``Tokens``, …; what was said only if it is an attribute.
    """
    kind = _kind_of(attributes)
    if not kind:
        return []
    who = str(attributes.get(semconv.AGENT) or attributes.get(semconv.WORKFLOW) or "")
    target = attributes.get(semconv.TARGET)
    whom = f"{who} {arrow} {target}" if target and kind in ("route", "handoff") else who or name
    facts = {label: _text(attributes.get(key)) for label, key in _FACTS[kind].items()}
    if kind == "handoff" and semconv.ARGUMENTS in attributes:
        facts |= _handed_over(str(attributes[semconv.ARGUMENTS]))
    if kind == "llm" and semconv.INPUT_TOKENS in attributes:
        facts["Tokens"] = f"{attributes[semconv.INPUT_TOKENS]} {arrow} {attributes.get(semconv.OUTPUT_TOKENS, 0)}"
    facts["Error"] = _text(attributes.get(semconv.ERROR))
    return [
        f"[Trace] {kind} ({whom}) - {seconds:.1f}s",
        *(f"  {label}: {said}" for label, said in facts.items() if said),
    ]


_FACTS: dict[str, dict[str, str]] = {
    "llm": {"Model": semconv.REQUEST_MODEL},
    "tool": {"Tool": semconv.TOOL, "Input": semconv.ARGUMENTS, "Output": semconv.RESULT, "Outcome": semconv.OUTCOME},
    "handoff": {"Result": semconv.RESULT, "Refused": semconv.CODE},
    "route": {"By": semconv.ROUTE_STAGE, "Confidence": semconv.ROUTE_CONFIDENCE},
    "agent": {"Outcome": semconv.OUTCOME},
    "wait": {"For": semconv.SUSPEND_CAUSE},
    "job": {"Status": semconv.STATUS, "Reason": semconv.REASON},
}


def _kind_of(attributes: Mapping[str, Any]) -> str:
    operation = attributes.get(semconv.OPERATION)
    if operation in _CALLS:
        return "llm"
    if semconv.ROUTE_STAGE in attributes:
        return "route"
    if semconv.CODE in attributes or semconv.TARGET in attributes:
        return "handoff"
    if semconv.SUSPEND_CAUSE in attributes:
        return "wait"
    return {"execute_tool": "tool", "invoke_agent": "agent", "invoke_workflow": "job"}.get(str(operation), "")


def _handed_over(arguments: str) -> dict[str, str]:
    """Return what a handoff says, by name; an attribute may have been cut, and is no JSON then."""
    try:
        said = json.loads(arguments)
    except ValueError:
        return {"Said": _text(arguments)}
    return {str(name).capitalize(): _text(value) for name, value in said.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return preview(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_WIDTH)
