"""What a server asks in place of a result, as a question to a person; and what a person says, as the server's form."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types as types

from ekiden.shared.errors import ToolError
from ekiden.shared.storable import has_nan, strict_json
from ekiden.workers.tools.base import Answered, ToolQuestion

__all__ = ["answers_of", "question_of"]

_DONE = "done"


def question_of(server: str, result: types.InputRequiredResult) -> ToolQuestion:
    """Return the question. Raises ``ToolError`` where the server wants what no person can give."""
    forms: dict[str, Any] = {}
    lines, choices = [f"The MCP server {server!r} asks:"], tuple[str, ...]()
    for key, request in (result.input_requests or {}).items():
        params = getattr(request, "params", None)
        if isinstance(params, types.ElicitRequestURLParams):
            forms[key] = {}
            lines.append(f"{params.message}\nOpen {params.url}, and answer {_DONE!r} when you are through.")
        elif isinstance(params, types.ElicitRequestFormParams):
            forms[key] = params.requested_schema
            lines.append(params.message)
            lines += _fields(params.requested_schema)
        else:
            raise ToolError(
                f"not finished: the server asks for {getattr(request, 'method', 'something')!r}, which no agent gives: "
                "it gets answers of people only"
            )
    if not forms:
        raise ToolError("not finished: the server wants to be called again, and does not say with what")
    if len(forms) == 1:
        choices = _choices(next(iter(forms.values())))
    state = json.dumps({"forms": forms, "state": result.request_state})
    return ToolQuestion("\n".join(lines), choices, state)


def answers_of(answered: Answered) -> tuple[dict[str, types.InputResponse], str | None]:
    """Return what goes back to the server: an answer for each of its requests, and its state."""
    said = json.loads(answered.state)
    return {key: _answer(form, answered) for key, form in said["forms"].items()}, said["state"]


def _answer(form: Mapping[str, Any], answered: Answered) -> types.ElicitResult:
    if answered.status != "answered":
        return types.ElicitResult(action="decline" if answered.status == "denied" else "cancel")
    properties = form.get("properties") or {}
    if not properties:
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content=_content(properties, answered.text))


def _content(properties: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the fields of a form: a JSON object says all of them, any other text is the first one's."""
    try:
        said = strict_json(text)
    except ValueError:
        said = None
    if isinstance(said, dict):
        return {name: value for name, value in said.items() if name in properties}
    name = next(iter(properties))
    return {name: _typed(properties[name], text)}


def _typed(field: Mapping[str, Any], text: str) -> Any:
    kind, word = field.get("type"), text.strip()
    if kind == "boolean":
        return word.casefold() in ("yes", "y", "true", "是", "好")
    try:
        number = int(word) if kind == "integer" else float(word) if kind == "number" else None
        return text if number is None or has_nan(number) else number
    except ValueError:
        return text  # the server says what is wrong with it


def _choices(form: Mapping[str, Any]) -> tuple[str, ...]:
    properties = form.get("properties") or {}
    if not properties:
        return (_DONE,)
    if len(properties) != 1:
        return ()
    [field] = properties.values()
    if field.get("type") == "boolean":
        return ("yes", "no")
    return tuple(str(value) for value in field.get("enum") or ())


def _fields(form: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each field of a form that has several: then the answer is a JSON object."""
    properties = form.get("properties") or {}
    if len(properties) < 2:
        return
    yield "Answer with a JSON object:"
    for name, field in properties.items():
        kinds = ", ".join(map(str, field["enum"])) if field.get("enum") else field.get("type", "")
        yield f"  {name} ({kinds}): {field.get('description') or field.get('title') or ''}".rstrip(": ")
