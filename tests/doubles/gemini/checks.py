"""What Gemini refuses in a request, in its own words."""

import re
from collections.abc import Mapping
from typing import Any

from tests.doubles.gemini.failures import ApiError, unknown_field
from tests.doubles.gemini.wire import JSON, contents_of, declarations, generation, has, parts_of, signer_of

__all__ = ["check"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:\-]{0,127}")
_SCHEMA_FIELDS = frozenset(
    (
        *("type", "format", "title", "description", "nullable", "enum", "default", "example", "anyOf", "pattern"),
        *("items", "maxItems", "minItems", "minimum", "maximum", "minLength", "maxLength"),
        *("properties", "required", "propertyOrdering", "minProperties", "maxProperties"),
    )
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_ORDER = "Please ensure that function response turn comes immediately after a function call turn."
_CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)


def check(model: str, body: JSON, *, strict: bool) -> None:
    """Raise ``ApiError`` for what Gemini would refuse; ``strict``: a signature of another model too."""
    if not contents_of(body):
        raise ApiError(400, "* GenerateContentRequest.contents: contents is not specified\n")
    _check_tools(body)
    _check_thinking(model, body)
    _check_turns(contents_of(body))
    if generation(model) >= (3, 0):
        _check_signatures(model, contents_of(body), strict=strict)


def _check_tools(body: JSON) -> None:
    seen: set[str] = set()
    for index, one in enumerate(declarations(body)):
        where = f"GenerateContentRequest.tools[0].function_declarations[{index}]"
        name = one.get("name") or ""
        if not _NAME.fullmatch(name):
            raise ApiError(
                400,
                f"* {where}.name: Invalid function name. Must start with a letter or an underscore. Must be "
                "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
                "length of 128.\n",
            )
        if name in seen:
            raise ApiError(400, f"Duplicate function declaration found: {name}")
        seen.add(name)
        _check_parameters(one, where, f"tools[0].function_declarations[{index}].parameters")
    _check_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}, seen)


def _check_parameters(declaration: JSON, where: str, field: str) -> None:
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        raise ApiError(400, f"* {where}: parameters and parameters_json_schema are mutually exclusive\n")
    _check_schema(declaration.get("parameters"), field)
    schema = declaration.get("parametersJsonSchema")
    if schema is not None and schema.get("type") != "object":
        raise ApiError(400, f"* {where}.parameters_json_schema: schema must be of type object\n")
    _check_references(schema, where, frozenset((schema or {}).get("$defs") or ()))


def _check_schema(schema: Any, where: str) -> None:
    """The older form knows few keywords."""
    if not isinstance(schema, Mapping):
        return
    for key in schema:
        if key not in _SCHEMA_FIELDS:
            raise unknown_field(key, where)
    for name, inner in (schema.get("properties") or {}).items():
        _check_schema(inner, f"{where}.properties[{name}]")
    _check_schema(schema.get("items"), f"{where}.items")


def _check_references(schema: Any, where: str, defined: frozenset[str]) -> None:
    """A ``$ref`` leads to the ``$defs`` of the root, and beside it nothing may stand but what begins with ``$``."""
    if isinstance(schema, list):
        for inner in schema:
            _check_references(inner, where, defined)
    elif isinstance(schema, Mapping):
        if isinstance(ref := schema.get("$ref"), str):
            if any(not key.startswith("$") for key in schema):
                raise ApiError(400, f"* {where}.parameters_json_schema: $ref must not have siblings\n")
            if not ref.startswith("#/$defs/") or ref.removeprefix("#/$defs/") not in defined:
                raise ApiError(400, f"* {where}.parameters_json_schema: reference to undefined schema at {ref}\n")
        for inner in schema.values():
            _check_references(inner, where, defined)


def _check_choice(choice: JSON, declared: set[str]) -> None:
    for name in choice.get("allowedFunctionNames") or []:
        if choice.get("mode") not in ("ANY", "VALIDATED"):
            raise ApiError(400, "Allowed function names should only be set when function calling mode is ANY.")
        if name not in declared:
            raise ApiError(400, f"Function calling config contains an unknown function name: {name}")


def _check_thinking(model: str, body: JSON) -> None:
    config = (body.get("generationConfig") or {}).get("thinkingConfig")
    if config and (generation(model) < (2, 5) or (generation(model) < (3, 0) and "lite" in model)):
        raise ApiError(400, "Unable to submit request because thinking is not supported by this model.")


def _check_turns(contents: list[JSON]) -> None:
    open_calls: list[JSON] = []
    before = ""
    for index, content in enumerate(contents):
        role = content.get("role", "user")
        if role not in ("user", "model", "function"):
            raise ApiError(400, "Please use a valid role: user, model.")
        if not parts_of(content):
            raise ApiError(
                400, f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n"
            )
        _check_responses(open_calls, [p["functionResponse"] for p in parts_of(content) if "functionResponse" in p])
        open_calls = [part["functionCall"] for part in parts_of(content) if "functionCall" in part]
        if open_calls and before in ("", "model"):
            raise ApiError(400, _CALL_ORDER)
        before = role
    if open_calls:
        raise ApiError(400, _COUNT)


def _check_responses(calls: list[JSON], responses: list[JSON]) -> None:
    if responses and not calls:
        raise ApiError(400, _ORDER)
    if len(responses) != len(calls):
        raise ApiError(400, _COUNT)
    for call, response in zip(calls, responses, strict=True):
        if (call["name"], call.get("id")) != (response["name"], response.get("id")):
            raise ApiError(400, f"Function response {response['name']} does not answer function call {call['name']}.")


def _check_signatures(model: str, contents: list[JSON], *, strict: bool) -> None:
    """Only the first call of a step, and only in the turn since the user last spoke."""
    spoke = [
        i
        for i, content in enumerate(contents)
        if content.get("role", "user") == "user" and any("functionResponse" not in part for part in parts_of(content))
    ]
    for index, content in enumerate(contents):
        if index > max(spoke, default=-1) and has(content, "functionCall"):
            first = next(part for part in parts_of(content) if "functionCall" in part)
            _check_signature(model, first, index, strict=strict)


def _check_signature(model: str, part: JSON, index: int, *, strict: bool) -> None:
    signature = part.get("thoughtSignature")
    if not signature:
        raise ApiError(
            400,
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
            "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
            f"function call `default_api:{part['functionCall'].get('name')}`, position {index + 1}.",
        )
    signer = signer_of(signature)
    if strict and signer not in (model, "*"):
        raise ApiError(400, "Corrupted thought signature." if signer is None else "Invalid thought signature.")
