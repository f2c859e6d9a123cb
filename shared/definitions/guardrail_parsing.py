"""Which guardrails an agent's file wants: ``guardrails``, in every spelling.

A list of ``{name, on, policy, schema | validator | prompt | max_length, tools}``, or the single object
``{output_schema, on_failure, custom_validator}``. ``on_failure`` is the same as ``policy``; ``validator: custom`` is
the one that is called as the guardrail is. A guardrail that cannot be read is an error: never none.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ekiden.shared.definitions.fields import folded, keys_of
from ekiden.shared.definitions.guardrails import BUILT_IN, GUARDED_PLACES, Guardrail
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.rules import matches
from ekiden.shared.definitions.tool_names import tools_meant
from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import as_written
from ekiden.shared.schemas import check
from ekiden.shared.suggestions import nearest

__all__ = ["request_guardrails", "take_guardrails"]

FIELD = "guardrails"
MOST = 20
"""Guardrails of one agent: each is asked at each of its places."""

_KEYS = {
    "name": "name",
    "on": "on",
    "policy": "policy",
    "onfailure": "policy",
    "schema": "schema",
    "outputschema": "schema",
    "validator": "validator",
    "customvalidator": "validator",
    "prompt": "prompt",
    "maxlength": "max_length",
    "tools": "tools",
    "stream": "stream",
}
_SINGLE = ("outputschema", "customvalidator")
"""What the single object has, and an entry of a list has not."""
_POLICIES = ("reject", "repair", "ask", "warn")
_REPAIRED = ("output", "handoff", "tool_input", "tool_output", "delegation")
"""Where what does not pass can be repaired: what somebody has asked is not put into other words."""
_ASKED = ("output", "handoff", "tool_input")
"""Where a person can be asked: there is something that waits for the answer."""
_OF_CALLS = ("tool_input", "tool_output", "delegation")
_EXPECTED = (
    "write {name: …, on: output, policy: reject, schema: {…}}, or 'validator: no_secrets' in place of the schema"
)


def take_guardrails(raw: dict[str, Any]) -> tuple[Guardrail, ...]:
    """Take the guardrails out of ``raw``. Raises ``AgentFileError`` for what would not be judged as it stands there."""
    found = [(key, raw.pop(key)) for key in keys_of(raw, [FIELD, "guardrail"])]
    said = [(key, value) for key, value in found if value or (value in (0, 0.0) and value is not False)]
    if not said:
        return ()
    key, value = said[0]
    if len(said) > 1:
        raise AgentFileError(f"{said[1][0]!r} stands beside {key!r}: write it once", field=said[1][0])
    try:
        return _read(value)
    except DefinitionError as error:
        raise AgentFileError(f"{key!r}: {error}", field=key) from None


def request_guardrails(value: Any) -> tuple[Guardrail, ...]:
    """Return the guardrails of requests that settings list. Raises ``DefinitionError`` for what would not be judged."""
    entries = _read([{**one, "on": "input"} if isinstance(one, Mapping) else one for one in value])
    for said, rail in zip(value, entries, strict=True):
        if named := next((key for key in said if folded(key) in ("on", "stream", "tools")), None):
            raise DefinitionError(f"{rail.name!r} has {named!r}: these judge the request, and nothing else")
        if rail.policy not in ("reject", "warn"):
            raise DefinitionError(
                f"the policy of {rail.name!r} is {rail.policy!r}: of a request there are reject, warn"
            )
        if not rail.is_own:
            asked = "'prompt'" if rail.prompt else f"the validator {rail.validator!r}"
            raise DefinitionError(
                f"{rail.name!r} has {asked}: neither models nor plug-ins judge a request. Write a schema, a length, or "
                f"one of {', '.join(sorted(BUILT_IN))}"
            )
    return entries


def _read(value: Any) -> tuple[Guardrail, ...]:
    if isinstance(value, Mapping):
        is_single = any(folded(key) in _SINGLE for key in value)
        return (_guardrail({"name": "output", **value} if is_single else value, "it"),)
    if not isinstance(value, list):
        raise DefinitionError(f"it is {value!r:.80}: {_EXPECTED}")
    if len(value) > MOST:
        raise DefinitionError(f"it has {len(value):,} guardrails, {MOST} are the most")
    made = tuple(_guardrail(one, f"entry {place}") for place, one in enumerate(value, 1))
    names = [one.name for one in made]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DefinitionError(f"{twice!r} is listed twice: give each guardrail a name of its own")
    return made


def _guardrail(entry: Any, where: str) -> Guardrail:
    if not isinstance(entry, Mapping):
        raise DefinitionError(f"{where} is {entry!r:.80}: {_EXPECTED}")
    fields = _fields(entry, where)
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise DefinitionError(f"{where} has no name that can be shown ({name!r:.80}): {_EXPECTED}")
    fields["name"] = name.strip()
    where = repr(fields["name"])
    fields["on"] = _places(fields.get("on", "output"), where)
    fields["policy"] = _policy(fields.get("policy", "reject"), fields["on"], where)
    if "tools" in fields:
        fields["tools"] = _tools(fields["tools"], fields["on"], where)
    if "stream" in fields and "output" not in fields["on"]:
        raise DefinitionError(f"'stream' of {where} has no effect: it counts with 'on: output'")
    _check(fields, where)
    try:
        return Guardrail(**fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        said = problem["ctx"]["error"] if "error" in problem.get("ctx", {}) else problem["msg"]
        raise DefinitionError(f"'{problem['loc'][0]}' of {where} is {problem['input']!r:.80}: {said}") from None


def _fields(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, item in entry.items():
        if (name := _KEYS.get(folded(key))) is None:
            near = nearest(str(key).casefold(), sorted(set(_KEYS.values())), n=1)
            advice = f"did you mean {near[0]!r}?" if near else _EXPECTED
            raise DefinitionError(f"{where} has {key!r}, which is not known there: {advice}")
        if name in fields:
            raise DefinitionError(f"{where} has {name!r} twice: write it once")
        if item is not None:
            fields[name] = item
    return fields


def _places(value: Any, where: str) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(one, str) for one in words):
        raise DefinitionError(f"'on' of {where} is {value!r:.80}: it says where, {', '.join(GUARDED_PLACES)}")
    places = list(dict.fromkeys(word.strip().replace("-", "_") for word in words))
    for place in places:
        if place not in GUARDED_PLACES:
            known = ", ".join(GUARDED_PLACES)
            raise DefinitionError(f"'on' of {where} is {place!r:.80}, which is no place: there are {known}")
    return places


def _tools(value: Any, places: list[str], where: str) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(one, str) and one.strip() for one in words):
        raise DefinitionError(f"'tools' of {where} is {value!r:.80}: it is a list of names, such as [bash, mcp.*]")
    if not set(places) & set(_OF_CALLS):
        raise DefinitionError(f"'tools' of {where} has no effect: it counts with 'on: {' | '.join(_OF_CALLS)}'")
    named = [word.strip() for word in words]
    meant = [tool for word in named for tool in tools_meant(word) if not matches(tool, tuple(named))]
    return list(dict.fromkeys([*named, *meant]))  # 'Bash' of other programs' files is our 'bash', too


def _policy(value: Any, places: list[str], where: str) -> str:
    word = value.strip() if isinstance(value, str) else value
    if word not in _POLICIES:
        raise DefinitionError(f"the policy of {where} is {value!r:.80}: there are {', '.join(_POLICIES)}")
    where_it_can = {"repair": _REPAIRED, "ask": _ASKED}.get(word, places)
    if others := [place for place in places if place not in where_it_can]:
        listed = ", ".join(where_it_can)
        raise DefinitionError(
            f"the policy of {where} is {word!r}, which is for {listed}: at {others[0]} write 'reject' or 'warn'"
        )
    return str(word)


def _check(fields: dict[str, Any], where: str) -> None:
    """Complete what is checked, and refuse what is not."""
    if "schema" in fields:
        if not isinstance(fields["schema"], Mapping) or not fields["schema"]:
            raise DefinitionError(f"the schema of {where} must be a JSON Schema, not {as_written(fields['schema'])}")
        try:
            check(fields["schema"], formats=True)
        except DefinitionError as error:
            raise DefinitionError(f"the schema of {where}: {error}") from None
    if "validator" in fields:
        word = fields["validator"]
        if not isinstance(word, str) or not word.strip():
            raise DefinitionError(f"the validator of {where} is {word!r:.80}: it is a name, such as 'no_secrets'")
        fields["validator"] = fields["name"] if word.strip() == "custom" else word.strip()
    if fields.get("validator") == "max_length" and "max_length" not in fields:
        raise DefinitionError(f"{where} says no length: write 'max_length: 2000'")
    if "prompt" in fields:
        fields["prompt"] = _sentence(fields["prompt"], where)
    if not fields.keys() & {"schema", "validator", "prompt", "max_length"}:
        raise DefinitionError(f"{where} checks nothing: {_EXPECTED}")


def _sentence(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        example = "such as 'The answer names no price'"
        raise DefinitionError(
            f"the prompt of {where} is {value!r:.80}: it is a sentence that has to be true, {example}"
        )
    return value.strip()
