"""From raw front matter to an ``AgentDefinition``: the several forms that files use become the one of the model.

==========  ==============================================================================================
field       forms
==========  ==============================================================================================
tools       see ``tool_rules.py``; also ``allowedTools``; ``disallowedTools`` beside it; in every spelling
limits      ``{max_turns, …}``; also on the top level, with ``timeout_mins`` and ``maxCost``; the lowest counts
models      ``model`` or ``models``: see ``model_names.py``
network     ``true`` or ``false``: whether commands reach one
name        absent: the file's name, with a warning
confirm.    ``confirmation`` in every spelling: see ``confirmation.py``
guardrails  in every spelling: see ``guardrail_parsing.py``
memory      see ``memory.py``
graph       see ``graph_parsing.py``; also ``orchestrate`` with ``agents``
triggers    ``{keywords, patterns, examples, priority 0-100}``, a list of ``{intent, keywords, regex, priority 0-10}``
handoffs    and sub-agents, inputs, outputs: see ``team_parsing.py``
prompt      the body, or ``systemPrompt`` where there is none
others      what restricts the agent: see ``restrictions.py``; what is not built yet: ``unsupported_fields.py``
==========  ==============================================================================================
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from ekiden.shared.definitions.confirmation import take_confirmation
from ekiden.shared.definitions.fields import (
    AUTO_APPROVE,
    DENIED_TOOLS,
    KNOWN_FIELDS,
    MAX_TURNS,
    NETWORK,
    SPENDING,
    TIMEOUT_MINUTES,
    TOOLS,
    folded,
    keys_of,
)
from ekiden.shared.definitions.graph_shape import check_shape
from ekiden.shared.definitions.graph_short_forms import take_graph
from ekiden.shared.definitions.graph_surroundings import check_beside_a_graph
from ekiden.shared.definitions.guardrail_parsing import take_guardrails
from ekiden.shared.definitions.json_values import json_value
from ekiden.shared.definitions.memory import read_memory
from ekiden.shared.definitions.model import AgentDefinition, Limits
from ekiden.shared.definitions.model_names import MODELS, model_name, take_models
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.restrictions import restrict
from ekiden.shared.definitions.team_parsing import FORMS, number
from ekiden.shared.definitions.tool_rules import RulesReader
from ekiden.shared.definitions.unsupported_fields import idle_fields, refuse_unbuilt
from ekiden.shared.definitions.unused_keys import unused_keys_in
from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import fault_in
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.patterns import compile_pattern

__all__ = ["ParsedDefinition", "definition_from", "read_definition"]

_RESERVED = frozenset({"user"})  # the first runner of every chain
_LONGEST_KEYWORD = 200
_MOST_PATTERNS = 100
_TYPED = frozenset(AgentDefinition.model_fields) - {"instructions", "extra", "model", "fallbacks", "fallback_on"}
_RULES = (*TOOLS, *DENIED_TOOLS, *NETWORK, *AUTO_APPROVE, "limits", *MAX_TURNS, *TIMEOUT_MINUTES, *SPENDING)
_STRICT = ("limits", "output", "handoffs")
"""Fields whose objects restrict: a limit, a schema, a condition."""
_OF_JOB = "job."
_LIMITS_OF_JOB = {folded(name): name for name in JobLimits.model_fields} | {
    folded(k): limit for k, limit in SPENDING.items()
}
_LIMITS = {folded(name): name for name in Limits.model_fields} | {folded(key): limit for key, limit in SPENDING.items()}


@dataclass
class ParsedDefinition:
    """A definition, and what was not taken as the file has it: field (empty: none) and text."""

    definition: AgentDefinition
    notes: list[tuple[str, str]] = field(default_factory=list)
    about_tools: list[tuple[str, str]] = field(default_factory=list)


def definition_from(fields: Mapping[str, Any], body: str, scope: str = "project") -> AgentDefinition:
    """Make a definition of an agent file's front matter and body. Raises as ``read_definition``."""
    return read_definition(fields, body, scope).definition


def read_definition(
    fields: Mapping[str, Any], body: str, scope: str = "project", file_name: str = ""
) -> ParsedDefinition:
    """Make a definition of an agent file's front matter and body.

    Args:
        fields: The front matter.
        body: The system prompt.
        scope: The scope of an agent whose file gives none.
        file_name: The name of an agent whose file gives none; empty: a name is needed.

    Raises:
        AgentFileError: a field's value cannot be meant; names the field, the value and what is allowed.
    """
    raw = json_value(dict(fields))
    absent = [key for key in {*_TYPED, *MODELS, *keys_of(raw, _RULES)} if raw.get(key, ...) is None]
    raw = {key: value for key, value in raw.items() if key not in absent}
    refuse_unbuilt(raw)
    notes = list(idle_fields(raw))
    prompt = body if body.strip() else raw.pop("systemPrompt", body)
    confirmation = take_confirmation(raw)
    guardrails = take_guardrails(raw)
    graph = take_graph(raw)
    models = take_models(raw)
    reader = _tools(raw)
    limits, origins = _limits(raw)
    typed = {key: raw.pop(key) for key in _TYPED & raw.keys()}
    values: dict[str, Any] = {"scope": scope, **typed, **_identity(typed, raw, file_name, notes)}
    values |= {key: _reading(key, read, typed[key]) for key, read in _FORMS.items() if key in typed}
    values |= models | {"tools": reader.rules, "limits": limits, "instructions": prompt, "extra": raw}
    values |= {"confirmation": confirmation, "guardrails": guardrails, "graph": graph}
    if "long_term" in values.get("memory", {}) and not reader.is_confined:
        values["tools"] = {**(reader.rules or {}), "memory": True}
    try:
        definition = AgentDefinition(**{key: value for key, value in values.items() if value is not None})
    except ValidationError as error:
        raise _translated(error, origins) from None
    if definition.graph is not None:
        check_shape(definition.graph)
        check_beside_a_graph(definition)
    unused = list(unused_keys_in(definition))
    if misspelt := next(((field, text) for field, text in unused if field in _STRICT and "Did you mean" in text), None):
        raise AgentFileError(misspelt[1], field=misspelt[0])  # what cannot be read of them must not be none
    return ParsedDefinition(definition, [*notes, *unused], [*reader.narrowed, *reader.notes])


def _identity(
    raw: Mapping[str, Any], others: Mapping[str, Any], file_name: str, notes: list[tuple[str, str]]
) -> dict[str, str]:
    name, title, description = (_text_or_none(raw, key) for key in ("name", "title", "description"))
    said = description or title
    if name is None and said is not None and file_name:
        name = file_name
        notes.append(("", f"'name' is missing: the agent is named {name!r}, after its file. Add 'name: {name}'"))
    if name is None:
        raise AgentFileError(
            "'name' is missing: give the agent one, kebab-case by convention ('code-fixer')"
            + ("" if said else ", and a 'description'")
            + _meant(others, ("name",)),
            is_missing=True,
        )
    if name.casefold() in _RESERVED:
        raise AgentFileError(f"'name' is {name!r}: this name is reserved, take another", field="name")
    if said is None:
        raise AgentFileError(
            f"agent {name!r} needs a 'description' (or a 'title'): one sentence on what it is for, "
            f"which routers and other agents read{_meant(others, ('description', 'title'))}",
            field="name",
            is_missing=True,
        )
    return {"name": name, "title": title or name, "description": said}


def _meant(others: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    """Ask whether a field that nobody knows is one of those that are missing."""
    for key in map(str, others):
        if key not in KNOWN_FIELDS and (near := get_close_matches(key.lower(), fields, n=1, cutoff=0.75)):
            return f". There is {key!r}: did you mean {near[0]!r}?"
    return ""


def _text_or_none(raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise AgentFileError(f"{key!r} is {value!r}: it must be text, put it in quotes", field=key)
    return value.strip() or None


def _reading(field: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except DefinitionError as error:
        raise AgentFileError(f"{field!r}: {error}", field=field) from None


def _version(value: Any) -> str:
    return str(value)  # ``version: 1.0`` is a number to YAML


def _tools(raw: dict[str, Any]) -> RulesReader:
    """Take what says which tools the agent gets out of ``raw``."""
    reader = RulesReader()
    for place, key in enumerate(keys_of(raw, TOOLS)):
        reader.at = key
        _reading(key, reader.read_too if place else reader.read, raw.pop(key))
    for key in keys_of(raw, DENIED_TOOLS):
        reader.at = key
        _reading(key, reader.forbid, raw.pop(key))
    for key in keys_of(raw, NETWORK):
        _reading(key, reader.allow_network, raw.pop(key))
    for key in keys_of(raw, AUTO_APPROVE):
        reader.at = key
        _reading(key, reader.approve, raw.pop(key))
    try:
        restrict(raw, reader)
    except DefinitionError as error:
        raise AgentFileError(f"{reader.at!r}: {error}", field=reader.at) from None
    return reader


def _limits(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Take the limits out of ``raw``; return them, and for each the top-level field that it comes from."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, limit, value in _words_on_limits(raw):
        if limit not in values or _size(value) < _size(values[limit]):
            values[limit] = value
            origins[limit] = key
    of_job = {limit.removeprefix(_OF_JOB): values.pop(limit) for limit in [*values] if limit.startswith(_OF_JOB)}
    if of_job:
        values["job"] = of_job
    return values, {limit: key for limit, key in origins.items() if key != "limits"}


def _words_on_limits(raw: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Take the limits out of ``raw``: yield the field, the limit, and its value."""
    for key in keys_of(raw, ["limits"]):
        for name, value in _reading(key, _limits_object, raw.pop(key)).items():
            if folded(name) != "job":
                yield key, _LIMITS.get(folded(name), name), value
                continue
            for own, most in _reading(key, _job_limits_object, value).items():
                yield key, f"{_OF_JOB}{_LIMITS_OF_JOB.get(folded(own), own)}", most
    for key in keys_of(raw, MAX_TURNS):
        yield key, "max_turns", raw.pop(key)
    for name, limit in SPENDING.items():
        for key in keys_of(raw, [name]):
            yield key, limit, raw.pop(key)
    for key in keys_of(raw, TIMEOUT_MINUTES):
        value = raw.pop(key)
        minutes = number(value)
        yield key, "max_seconds", value if minutes is None else minutes * 60


def _size(value: Any) -> float:
    """Return the number; what is none comes before all of them, so that it is refused."""
    size = number(value)
    return -math.inf if size is None or math.isnan(size) else size


def _triggers(value: Any) -> dict[str, Any]:
    merged = _merged_triggers(value) if isinstance(value, list) else value
    if not isinstance(merged, Mapping):
        raise DefinitionError(f"must be an object with keywords and patterns, or a list of such, not {value!r}")
    read = {
        key: _texts(key, merged[key]) for key in ("keywords", "patterns", "examples") if merged.get(key) is not None
    }
    if len(read.get("patterns", ())) > _MOST_PATTERNS:
        raise DefinitionError(f"it has {len(read['patterns'])} patterns, {_MOST_PATTERNS} are the most")
    for pattern in read.get("patterns", ()):
        compile_pattern(pattern, ignore_case=True)
    if any(len(keyword) > _LONGEST_KEYWORD for keyword in read.get("keywords", ())):
        raise DefinitionError(f"a keyword has at most {_LONGEST_KEYWORD} characters; whole requests are 'examples'")
    return {**merged, **read}


def _merged_triggers(items: list[Any]) -> dict[str, Any]:
    """Merge ``{intent, keywords, regex, priority 0-10}`` objects into one; the highest priority counts."""
    merged: dict[str, Any] = {"keywords": [], "patterns": [], "examples": []}
    priorities = []
    for place, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise DefinitionError(f"entry {place + 1} must be an object with keywords or regex, not {item!r}")
        merged["keywords"] += _texts("keywords", item.get("keywords") or [])
        # Patterns may contain commas, so a single text is one pattern.
        merged["patterns"] += _texts("patterns", _listed(item.get("regex")) + _listed(item.get("patterns")))
        merged["examples"] += _texts("examples", _listed(item.get("examples")))
        if item.get("priority") is not None:
            priorities.append(_tenfold(item["priority"], place))
    intents = [item["intent"] for item in items if item.get("intent") is not None]
    return merged | ({"priority": max(priorities)} if priorities else {}) | ({"intents": intents} if intents else {})


def _tenfold(priority: Any, place: int) -> int:
    value = number(priority)
    if value is None or not 0 <= value <= 10:
        raise DefinitionError(f"priority of entry {place + 1} must be between 0 and 10 in a list, not {priority!r}")
    return round(value * 10)


def _job_limits_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"'job' must be an object such as {{max_tokens: 200000}}, not {value!r}")
    return {str(key): item for key, item in value.items() if item is not None}


def _limits_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"must be an object such as {{max_turns: 30}}, not {value!r}")
    return {key: item for key, item in value.items() if item is not None}


def _compression(value: Any) -> dict[str, Any]:
    """Read an object, or the word that says whether there is any."""
    if isinstance(value, bool):
        return {} if value else {"threshold": 1}
    if not isinstance(value, Mapping):
        raise DefinitionError(f"must be true, false, or an object such as {{threshold: 0.5}}, not {value!r}")
    return {**value, "model": model_name(value["model"])} if value.get("model") is not None else dict(value)


_FORMS: dict[str, Callable[[Any], Any]] = {
    "compression": _compression,
    "memory": read_memory,
    "version": _version,
    "triggers": _triggers,
    **FORMS,
}


def _listed(value: Any, *, commas: bool = False) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str) and commas:
        return [part for part in value.split(",") if part.strip()]
    return value if isinstance(value, list) else [value]


def _texts(key: str, value: Any) -> list[str]:
    """Read a list of texts. A single text is split at commas, except where commas may belong to it."""
    return [_text(key, item) for item in _listed(value, commas=key not in ("patterns", "examples"))]


def _text(key: str, item: Any) -> str:
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        raise DefinitionError(f"{key!r} must hold texts, not {item!r}; put it in quotes")
    text = str(item).strip()
    if not text:
        raise DefinitionError(f"{key!r} holds an empty text; remove it")
    return text


def _translated(error: ValidationError, origins: Mapping[str, str]) -> AgentFileError:
    details = error.errors(include_url=False)
    where, *inside = map(str, details[0]["loc"])
    if where == "limits" and inside and inside[0] in origins:
        where = origins[inside[0]]
    return AgentFileError("; ".join(map(_sentence, details)), field=where, within=tuple(details[0]["loc"][1:]))


def _sentence(detail: Any) -> str:
    # ``loc`` also names the branch of a union ("bool", "dict[str,any]"), which no author wrote.
    place = ".".join(str(part) for part in detail["loc"])
    reason = detail["ctx"]["error"] if "error" in detail.get("ctx", {}) else fault_in(detail)
    return f"{place!r} is {_shortened(repr(detail['input']))}: {reason}"


def _shortened(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
