"""The questions of ``ekiden agents create --extended``; each answer is read as the agent's file will be."""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import typer

from ekiden.dispatcher.cli.agents.extended import EVENTS, Extended, memory_of, payload_of, rail_of, tracing_of
from ekiden.dispatcher.cli.agents.graph_fields import edge_of, graph_of, node_of
from ekiden.dispatcher.cli.agents.team_fields import TeamFields, known_agent
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.definitions.graph_parsing import check_condition
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.team_parsing import number
from ekiden.shared.errors import EkidenError, InvalidRequest

__all__ = ["ask_extended"]

_POLICIES = ("reject", "repair", "warn")


def ask_extended(team: TeamFields, more: Extended, agents: Collection[str]) -> tuple[TeamFields, Extended]:
    """Ask a person on a terminal for what was not said; ``agents``: the names of those there are."""
    team = _triggers(team)
    _heading("🔄", "Handoffs")
    if not team.handoffs:
        team, more = _handoffs(team, more, agents)
    _heading("🛡️", "Guardrails")
    if more.output_schema is None and _yes("Add output validation"):
        more = _validation(more)
    _heading("💾", "Memory")
    more = _memory(more)
    _heading("📊", "Graph (Multi-agent orchestration)")
    beside = [*(["handoffs"] if team.handoffs else []), *(["output validation"] if more.output_schema else [])]
    return team, _tracing(_graph(more, agents, beside))


def _triggers(team: TeamFields) -> TeamFields:
    _heading("🎯", "Triggers (Auto-routing)")
    if team.keywords is None:
        said = _asked("Add trigger keywords (comma-separated, enter to skip)", lambda text: text)
        team = dataclasses.replace(team, keywords=said or None)
    if not team.patterns:
        said = _asked("Add regex pattern (enter to skip)", lambda text: _read("triggers", {"patterns": [text]}))
        team = dataclasses.replace(team, patterns=[said] if said else ())
    if team.priority is None:
        said = _asked("Priority (0-10, default 5)", _tenths, default="5")
        team = dataclasses.replace(team, priority=_tenths(said))
    return team


def _handoffs(team: TeamFields, more: Extended, agents: Collection[str]) -> tuple[TeamFields, Extended]:
    names, conditions, payloads = list[str](), list(more.conditions), list(more.payloads)
    while name := _asked("Add handoff target agent (enter to skip)", lambda text: known_agent(text, agents)):
        names.append(name)
        if said := _asked("  When condition (enter to skip)", lambda text: _handoff(when=text)):
            conditions.append(f"{name}={said}")
        if said := _asked(
            "  Payload schema (JSON, enter to skip)", lambda text: _handoff(payload={"schema": payload_of(text)})
        ):
            payloads.append(f"{name}={said}")
    team = dataclasses.replace(team, handoffs=list(dict.fromkeys(names)))
    return team, dataclasses.replace(more, conditions=conditions, payloads=payloads)


def _validation(more: Extended) -> Extended:
    schema = _needed("  Schema (JSON)", lambda text: _read("guardrails", [rail_of(text, "reject")]))
    policy = _asked("  Policy (reject/repair/warn)", lambda text: _one_of(text, _POLICIES), default="reject")
    return dataclasses.replace(more, output_schema=schema, policy=more.policy or policy)


def _memory(more: Extended) -> Extended:
    if more.session is None and _yes("Enable session memory"):
        said = _needed("  Session keys (comma-separated)", lambda text: _read("memory", memory_of(text, None)))
        more = dataclasses.replace(more, session=said)
    if more.notes is None and _yes("Enable long-term memory"):
        said = _asked(
            "  Whose notes (agent, user, team or shared:NAME)",
            lambda text: _read("memory", memory_of(None, text)),
            default="agent",
        )
        more = dataclasses.replace(more, notes=said)
    return more


def _graph(more: Extended, agents: Collection[str], beside: Sequence[str]) -> Extended:
    """Ask for a graph; ``beside``: what was said already and would not be heeded in a file with one."""
    if more.has_graph:
        return more
    while _yes("Define graph"):
        if not beside:
            return _with_graph(more, agents)
        said = " and ".join(beside)
        Output().line(f"  Error: beside a graph, {said} would not be heeded: they belong into the files of its nodes")
    return more


def _with_graph(more: Extended, agents: Collection[str]) -> Extended:
    entry = _needed("  Entry node", lambda text: node_of(f"{text}=x"))
    nodes = _nodes(entry, agents)
    while True:
        more = dataclasses.replace(more, entry=entry, nodes=nodes, edges=_edges(_names(nodes)))
        try:
            _read("graph", graph_of(entry, nodes, more.edges))
        except EkidenError as error:
            Output().line(f"  {error}. The edges once more:")
        else:
            return more


def _nodes(entry: str, agents: Collection[str]) -> list[str]:
    nodes = list[str]()
    while True:
        question = "  Add node (NAME=AGENT, enter to end)"
        if text := _asked(question, lambda text: known_agent(node_of(text)["agent"], agents)):
            nodes.append(text)
        elif entry in _names(nodes):
            return nodes
        else:
            Output().line(f"  The entry {entry!r} is none of the nodes yet")


def _edges(nodes: Sequence[str]) -> list[str]:
    edges = list[str]()
    while text := _asked("  Add edge (FROM=TO, enter to end)", lambda text: edge_of(text, nodes)):
        condition = _asked("    Condition (enter: always)", lambda text: check_condition(text, ("graph",)))
        edges.append(f"{text}: {condition}" if condition else text)
    return edges


def _names(nodes: Sequence[str]) -> list[str]:
    return [node_of(text)["name"] for text in nodes]


def _tracing(more: Extended) -> Extended:
    _heading("🔍", "Tracing")
    if more.trace is not None or more.trace_backend is not None:
        return more
    if not _yes("Enable tracing", default="yes"):
        return dataclasses.replace(more, trace="")
    events = _asked(
        f"  Events to trace ({','.join(EVENTS)})", lambda text: tracing_of(text, None), default=",".join(EVENTS)
    )
    backend = _asked(
        "  Backend (console; enter: that of the settings)", lambda text: tracing_of(None, text), default=""
    )
    return dataclasses.replace(more, trace=events, trace_backend=backend or None)


def _heading(symbol: str, text: str) -> None:
    out = Output()
    out.line()
    out.line(f"{symbol} {text}" if out.is_unicode else text, "bold")


def _asked(question: str, check: Callable[[str], Any], default: str = "") -> str:
    """Return an answer that ``check`` takes; with another, which it raises an error for, the question is put again."""

    def checked(answer: str) -> str:
        answer = answer.strip()
        try:
            if answer:
                check(answer)
        except EkidenError as error:
            raise typer.BadParameter(str(error)) from None
        return answer

    return str(typer.prompt(question, default=default, show_default=bool(default), value_proc=checked))


def _needed(question: str, check: Callable[[str], Any]) -> str:
    while not (said := _asked(question, check)):
        pass
    return said


def _yes(question: str, default: str = "no") -> bool:
    return _asked(f"{question} (yes/no)", lambda text: _one_of(text, ("yes", "y", "no", "n")), default).startswith("y")


def _tenths(text: str) -> int:
    """Return what a priority from 0 to 10 is in agents' files."""
    value = number(text)
    if value is None or not 0 <= value <= 10:
        raise InvalidRequest(f"{text!r} is no number from 0 to 10")
    return round(value * 10)


def _one_of(text: str, allowed: Collection[str]) -> None:
    if text not in allowed:
        raise InvalidRequest(f"{text!r} is none of {', '.join(allowed)}")


def _read(field: str, value: Any) -> None:
    """Raise ``AgentFileError`` where a file with this would be no agent's."""
    read_definition({"name": "x", "description": "x", field: value}, "x")


def _handoff(**said: Any) -> None:
    _read("handoffs", [{"to": "another", **said}])
