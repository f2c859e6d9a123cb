"""What ``ekiden agents create --extended`` adds: conditions, payloads, a guardrail, memory, tracing; by options."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from ekiden.dispatcher.cli.agents.graph_fields import graph_of
from ekiden.dispatcher.cli.agents.team_fields import parts
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.settings.tracing import TracingEvent
from ekiden.shared.storable import read_json

__all__ = ["EVENTS", "Extended", "memory_of", "payload_of", "rail_of", "tracing_of"]

EVENTS: tuple[str, ...] = get_args(TracingEvent)
_NAMESPACES = ("agent", "user", "team")
_RAIL = "valid-output"


@dataclass(frozen=True)
class Extended:
    """None, or nothing: nothing was said.

    Attributes:
        conditions: When a handoff is offered: ``NAME=CONDITION``, one of CEL, or ``auto``.
        payloads: What is handed over with it: ``NAME=JSON``, see ``payload_of``.
        output_schema: The JSON Schema of its answers.
        policy: What becomes of an answer that is another.
        session: Variables of the session, joined by commas.
        notes: Whose notes it has: ``agent``, ``user``, ``team`` or ``shared:NAME``.
        trace: What is traced of it, joined by commas; empty: nothing.
        trace_backend: ``console`` or ``none``.
        entry: The node that its graph begins with.
        nodes: Of its graph: ``NAME=AGENT``.
        edges: Of its graph: ``FROM=TO``, or ``FROM=TO: CONDITION``.
    """

    conditions: Sequence[str] = ()
    payloads: Sequence[str] = ()
    output_schema: str | None = None
    policy: str | None = None
    session: str | None = None
    notes: str | None = None
    trace: str | None = None
    trace_backend: str | None = None
    entry: str | None = None
    nodes: Sequence[str] = ()
    edges: Sequence[str] = ()

    @property
    def has_graph(self) -> bool:
        """Whether a graph runs in the place of instructions."""
        return bool(self.nodes or self.edges or self.entry is not None)

    def put_into(self, fields: dict[str, Any]) -> None:
        """Put it over what the fields of an agent file say. Raises ``InvalidRequest`` for what cannot be meant."""
        for name, text in _by_target(self.conditions, "--when"):
            _handoff_to(name, fields, "--when")["when"] = text
        for name, text in _by_target(self.payloads, "--payload"):
            _handoff_to(name, fields, "--payload")["payload"] = {"schema": payload_of(text)}
        if self.output_schema is not None:
            fields["guardrails"] = [rail_of(self.output_schema, self.policy or "reject")]
        elif self.policy is not None:
            raise InvalidRequest("--on-violation says what becomes of answers that --schema forbids: give that, too")
        if memory := memory_of(self.session, self.notes):
            fields["memory"] = memory
        if self.trace is not None or self.trace_backend is not None:
            fields["tracing"] = tracing_of(self.trace, self.trace_backend)
        if self.has_graph:
            fields |= {"kind": "graph", "graph": graph_of(self.entry, self.nodes, self.edges)}


def payload_of(text: str) -> dict[str, Any]:
    """Return the JSON Schema of a payload: what is said, or that of the example that is said.

    Raises ``InvalidRequest`` for what is no JSON object.
    """
    value = _object(text, "the payload's schema")
    is_schema = value.get("type") == "object" or isinstance(value.get("properties"), dict)
    if not value or is_schema or any(key.startswith("$") or key in ("allOf", "anyOf", "oneOf") for key in value):
        return value
    return _like(value)


def rail_of(schema: str, policy: str) -> dict[str, Any]:
    """Return the guardrail of an agent whose answers are of a JSON Schema."""
    return {"name": _RAIL, "on": "output", "schema": _object(schema, "the schema"), "policy": policy}


def memory_of(session: str | None, notes: str | None) -> dict[str, Any]:
    """Return what an agent remembers; empty: nothing was said."""
    memory: dict[str, Any] = {"session": parts(session, ",")} if session else {}
    if notes is None:
        return memory
    kind, _, name = (part.strip() for part in notes.partition(":"))
    if kind == "shared":
        return memory | {"long_term": {"shared": name}}
    if kind not in _NAMESPACES or name:
        raise InvalidRequest(f"whose notes is {notes!r}: it is agent, user, team or shared:NAME")
    return memory | {"long_term": {"namespace": kind}}


def tracing_of(events: str | None, backend: str | None) -> dict[str, Any]:
    """Return what is traced of an agent."""
    if events is not None and not (named := parts(events, ",")):
        return {"enabled": False}
    tracing: dict[str, Any] = {"enabled": True}
    if events is not None:
        if unknown := [one for one in named if one not in EVENTS]:
            raise InvalidRequest(f"{unknown[0]!r} is nothing that is traced: there are {', '.join(EVENTS)}")
        tracing["events"] = named
    if backend in ("console", "none"):
        tracing["backend"] = backend
    elif backend is not None:
        raise InvalidRequest(
            f"the backend is {backend!r}: an agent's file may say 'console' or 'none'. Where else traces go, such as "
            "langsmith, is a setting of the deployment: `ekiden config set agents.tracing.backend langsmith`"
        )
    return tracing


def _by_target(texts: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, _, said = (part.strip() for part in text.partition("="))
        if not name or not said:
            raise InvalidRequest(f"{option} {text!r} is not NAME=…, with the agent that is handed over to")
        yield name, said


def _handoff_to(name: str, fields: Mapping[str, Any], option: str) -> dict[str, Any]:
    for rule in fields.get("handoffs") or ():
        if isinstance(rule, dict) and rule.get("to") == name:
            return rule
    raise InvalidRequest(f"{option} names {name!r}, to whom nothing is handed over: add --handoff {name}")


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise InvalidRequest(f"{what} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f'{what} must be a JSON object, such as {{"type": "object"}}, not {text:.80}')
    return value


def _like(value: Any) -> dict[str, Any]:
    """Return the JSON Schema of what is like ``value``; an empty list's entries, and null, may be anything."""
    match value:
        case dict():
            properties = {key: _like(inner) for key, inner in value.items()}
            return {"type": "object", "properties": properties, "required": list(value)}
        case [first, *_]:
            return {"type": "array", "items": _like(first)}
        case list():
            return {"type": "array"}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
    return {}
